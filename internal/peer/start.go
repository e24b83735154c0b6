package peer

import (
	"net/http"
	"net/netip"
	"time"

	"pando/internal/chunk"
)

// A boot starts with a few small files: the manifest of its version, the signature of that, and the map of its boot pack. Forty of
// each take the server's link as long as a tenth of the boot set does, and nobody has a piece to give before he has them. So they go
// round too: every node of the swarm has them, and the tracker names some.
const (
	startNames = 2 // nodes that are named
	startTries = 64
	startHold  = 2 * time.Second // a start waits so long for room, or a node that has the files, where its node does not say how long it waits itself
	startMost  = 2 * time.Minute // and the node asks again for so long, until it turns to the server anyway
	startPause = startHold / 4   // but not at once where the tracker did not make it wait
	startLook  = 20 * time.Millisecond
	startFiles = 8 << 10          // bytes of manifest and signature, about, compressed
	startPiece = 128              // and of the map for each piece: its digest, and about twenty extents
	startSmall = 16 << 10         // bytes of an object that is as small as what boots start with, such as a part of the index
	startTime  = 12 * time.Second // a node waits so long for the first answer
)

// StartFiles are what a boot starts with, for those who boot after this node.
type StartFiles struct {
	Manifest, Signature []byte         // none: this node does not give them
	Map                 chunk.Verified // of the pack
}

// Start is a node that boots and has nothing yet.
type Start struct {
	Swarm  string
	Size   int64        // bytes that it needs
	Subnet netip.Prefix // zero: not known
	Place  string
	Near   bool
}

// Start names nodes that have what a boot starts with. None are named when the server shall send it; or, with wait, when it shall
// be asked again a little later.
func (t *Tracker) Start(now time.Duration, s Start) (peers []netip.AddrPort, wait bool) {
	t.over(now, s.Size)
	if t.uplink.free(now, s.Size) {
		t.uplink.pass(now, s.Size)
		return nil, false
	}
	w := t.swarms[areaOf(s.Swarm, s.Place, s.Subnet, s.Near)]
	if w == nil || len(w.all) == 0 {
		return nil, true
	}
	each := t.uplink.time(s.Size) // the links of nodes are not known: as if they were the server's
	asks := &member{subnet: s.Subnet, place: s.Place, near: s.Near}
	for _, from := range [][]*member{w.near[s.Subnet], w.all} {
		first := t.o.Random.IntN(max(1, len(from)))
		for i := range min(len(from), startTries) {
			m := from[(first+i)%len(from)]
			if m.starts > now+each || m.shunned || t.banned[m.addr.Addr()] || !asks.mayMeet(m) {
				continue
			}
			if m.starts = max(m.starts, now) + each; len(peers) == 1 && peers[0] == m.addr {
				continue
			}
			if peers = append(peers, m.addr); len(peers) == startNames {
				return peers, false
			}
		}
	}
	return peers, len(peers) == 0
}

// startPatience is how long a node waits for an answer to its start. Where word is late that is longer, so that a crowd that waits does not fill
// the link with questions.
func startPatience(late time.Duration) time.Duration { return startTime + 2*bounded(late) }

// startHoldFor is how long a start is held for a node that waits for so long; 0: it did not say.
func startHoldFor(patience time.Duration) time.Duration {
	return max(startHold, min(patience, startPatience(LateMost))/2)
}

// startFiles answers POST /swarm/start: who has what a boot starts with. None: the server sends it, or is to be asked again. Boots stand in
// line, and the first of them gets what there is: a hundred that all had a part of the link would all wait for as long as the last.
func (s *TrackerServer) startFiles(r *http.Request, q startMessage) (startReply, bool) {
	pieces := len(s.pieces(q.Pack))
	if s.packs != nil && pieces == 0 {
		return startReply{}, false
	}
	start := Start{Swarm: q.Pack, Size: startFiles + int64(pieces)*startPiece, Subnet: subnet(asker(r, 1).Addr(), q.Prefix),
		Place: q.Place[:min(len(q.Place), 64)], Near: q.Near}
	s.crowd(1)
	defer s.crowd(-1)
	held := time.NewTimer(startHoldFor(milliseconds(q.Patience, startPatience(LateMost))))
	defer held.Stop()
	select {
	case s.line <- struct{}{}:
		defer func() { <-s.line }()
	case <-held.C:
		return s.startNone(q.Pack), true
	case <-r.Context().Done():
		return startReply{}, false
	}
	look := time.NewTicker(startLook)
	defer look.Stop()
	for {
		if a, ok := s.startNow(start, asker(r, 1).Addr()); ok {
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

// crowd counts the boots that wait for what they start with.
func (s *TrackerServer) crowd(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting += n
}

// startNow is the answer to a start if there is one now.
func (s *TrackerServer) startNow(start Start, from netip.Addr) (startReply, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	peers, wait := s.tracker.Start(s.now(), start)
	if id, err := chunk.ParseID(start.Swarm); err == nil && !wait { // the server may have to send the map, too
		s.granted[grant{from, id.Brief()}] = granted{waiter{pack: start.Swarm}, mapPiece, s.now()}
	}
	return startReply{Peers: peers, Late: s.tracker.Late(start.Swarm, s.starting).Milliseconds()}, !wait
}

// startNone is the answer to a start for which there was no room, and nobody to name. A node that does not know Again turns to the server.
func (s *TrackerServer) startNone(pack string) startReply {
	s.mu.Lock()
	defer s.mu.Unlock()
	return startReply{Again: true, Late: s.tracker.Late(pack, s.starting).Milliseconds()}
}
