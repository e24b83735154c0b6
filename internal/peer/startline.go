package peer

import (
	"net/http"
	"net/netip"
	"time"

	"pando/internal/chunk"
)

// startLine is where boots of one area stand that wait for what they start with. Those of another wait for other nodes, and have a line of their own.
type startLine struct {
	turn  chan struct{} // who may send into it is the first
	boots int           // that stand there
}

// startHoldFor is how long a start is held for a node that waits for so long, where word is so late; 0: it did not say. Who says more than a node would where it
// was told how late word is holds no place in line by that.
func startHoldFor(patience, late time.Duration) time.Duration {
	return max(startHold, min(patience, startPatience(late))/2)
}

// startFiles answers POST /swarm/start: who has what a boot starts with. None: the server sends it, or is to be asked again. Boots stand in
// line, and the first of them gets what there is: a hundred that all had a part of the link would all wait for as long as the last.
func (s *TrackerServer) startFiles(r *http.Request, q startMessage) (startReply, bool) {
	pieces := len(s.pieces(q.Pack))
	if s.packs != nil && pieces == 0 {
		return startReply{}, false
	}
	from := asker(r, 1).Addr()
	start := Start{Swarm: q.Pack, Size: startFiles + int64(pieces)*startPiece, Subnet: subnet(from, q.Prefix), Place: q.Place[:min(len(q.Place), 64)], Near: q.Near}
	line, late, leave := s.enter(start)
	defer leave()
	held := time.NewTimer(startHoldFor(milliseconds(q.Patience, startPatience(LateMost)), late))
	defer held.Stop()
	select {
	case line.turn <- struct{}{}:
		defer func() { <-line.turn }()
	case <-held.C:
		return s.startNone(q.Pack), true
	case <-r.Context().Done():
		return startReply{}, false
	}
	look := time.NewTicker(startLook)
	defer look.Stop()
	for {
		if a, ok := s.startNow(start, from); ok {
			return a, true
		}
		select {
		case <-look.C:
		case <-held.C:
			return s.startNone(q.Pack), true
		case <-r.Context().Done():
			return startReply{}, false
		}
	}
}

// enter has a boot stand in the line of its area, until leave is called, and tells how late word is with it.
func (s *TrackerServer) enter(start Start) (line *startLine, late time.Duration, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := areaOf(start.Swarm, start.Place, start.Subnet, start.Near)
	line = s.lines[key]
	if line == nil {
		line = &startLine{turn: make(chan struct{}, 1)}
		s.lines[key] = line
	}
	line.boots++
	s.starting++
	return line, s.tracker.Late(start.Swarm, s.starting), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.starting--
		if line.boots--; line.boots == 0 {
			delete(s.lines, key)
		}
	}
}

// startNow is the answer to a start if there is one now.
func (s *TrackerServer) startNow(start Start, from netip.Addr) (startReply, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, err := chunk.ParseID(start.Swarm)
	key := grant{from, id.Brief()}
	_, told := s.granted[key]
	start.Told = err == nil && (told || !s.hasRoom(from))
	peers, wait := s.tracker.Start(s.now(), start)
	if err == nil && !wait && !start.Told { // the server may have to send the map, too
		s.allow(key, granted{waiter: waiter{pack: start.Swarm}, piece: mapPiece})
		s.forgetGrants()
	}
	return startReply{Peers: peers, Late: s.tracker.Late(start.Swarm, s.starting).Milliseconds()}, !wait
}

// startNone is the answer to a start for which there was no room, and nobody to name. A node that does not know Again turns to the server.
func (s *TrackerServer) startNone(pack string) startReply {
	s.mu.Lock()
	defer s.mu.Unlock()
	return startReply{Again: true, Late: s.tracker.Late(pack, s.starting).Milliseconds()}
}
