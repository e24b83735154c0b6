package peer

import (
	"net/http"
	"net/netip"
	"time"

	"pando/internal/chunk"
)

// noteLost is after how long a grant that was never fetched may be forgotten.
const noteLost = time.Minute

// Bounds of what an address was allowed and has not fetched: who only asks shall neither fill the memory nor have others wait for what is never sent.
const (
	owedMost  = 256     // transfers: with all its extensions a node has no more
	owedLoose = 2 << 20 // bytes of loose objects
)

// grant is a transfer from the server that a node was allowed.
type grant struct {
	node   netip.Addr
	object chunk.Brief
}

// granted is what the tracker calls it.
type granted struct {
	waiter
	piece int
	loose int64 // bytes of a loose object that was taken from the budget
	since time.Duration
}

// owed is what an address was allowed and has not fetched.
type owed struct {
	transfers int
	loose     int64 // bytes
}

// allow remembers a transfer. The caller holds mu.
func (s *TrackerServer) allow(g grant, x granted) {
	s.forget(g)
	x.since = s.now()
	s.granted[g] = x
	o := s.owed[g.node]
	s.owed[g.node] = owed{o.transfers + 1, o.loose + x.loose}
}

// forget takes back a transfer that was allowed, or is over. The caller holds mu.
func (s *TrackerServer) forget(g grant) (x granted, ok bool) {
	if x, ok = s.granted[g]; !ok {
		return x, false
	}
	delete(s.granted, g)
	o := s.owed[g.node]
	if o = (owed{o.transfers - 1, o.loose - x.loose}); o.transfers <= 0 {
		delete(s.owed, g.node)
	} else {
		s.owed[g.node] = o
	}
	return x, true
}

// hasRoom tells whether one more transfer of an address is remembered. One that is not stands in line as any that nobody granted. The caller holds mu.
func (s *TrackerServer) hasRoom(node netip.Addr) bool { return s.owed[node].transfers < owedMost }

// note remembers what a node was allowed. The caller holds mu.
func (s *TrackerServer) note(to waiter, pieces []int, ids []chunk.ID) {
	for _, p := range pieces {
		if p < len(ids) && s.hasRoom(to.node.Addr()) {
			s.allow(grant{to.node.Addr(), ids[p].Brief()}, granted{waiter: to, piece: p})
		}
	}
	s.forgetGrants()
}

// forgetGrants forgets what was allowed long ago, now and then. The caller holds mu.
func (s *TrackerServer) forgetGrants() {
	now := s.now()
	if now < s.noted+noteLost/4 {
		return
	}
	s.noted = now
	for g, x := range s.granted {
		if now > x.since+noteLost {
			s.forget(g)
		}
	}
}

// Sent says that the server has sent an object to a node, well or not. Only what was granted counts.
func (s *TrackerServer) Sent(node netip.Addr, object chunk.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.forget(grant{node, object.Brief()})
	if !ok {
		return
	}
	switch x.piece {
	case mapPiece:
		return
	case bodyPiece:
		s.tracker.BodySent(node)
		s.step()
		return
	}
	s.tracker.Sent(x.pack, x.node, x.piece)
	s.step()
}

func (s *TrackerServer) looseObject(r *http.Request, q looseMessage) (looseReply, bool) {
	node, size := asker(r, q.Port.port()), believed(q.Size)
	s.mu.Lock()
	defer s.mu.Unlock()
	names, wait := s.tracker.Loose(s.now(), q.Object, node, size)
	if len(names) == 0 {
		s.expect(grant{node.Addr(), q.Object}, size)
	}
	return looseReply{names, wait.Milliseconds()}, true
}

// expect keeps the uplink free for a loose object that the server is to send, once. For one who is in no swarm, or asked for much that it never fetched, it does not: that
// stands in line when it is asked for. The caller holds mu.
func (s *TrackerServer) expect(g grant, size int64) {
	s.forgetGrants()
	if _, again := s.granted[g]; again || !s.tracker.Has(g.node) || !s.hasRoom(g.node) || s.owed[g.node].loose+size > owedLoose {
		return
	}
	s.tracker.Expect(s.now(), g.node, size)
	s.allow(g, granted{piece: bodyPiece, loose: size})
}
