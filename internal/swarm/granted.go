package swarm

import (
	"net/netip"
	"time"

	"pando/internal/chunk"
)

// noteLost is after how long a grant that was never fetched may be forgotten.
const noteLost = time.Minute

// Bounds of what an address was allowed and has not fetched: who only asks shall neither fill the memory nor have
// others wait for what is never sent.
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
	Waiter
	piece int
	loose int64 // bytes of a loose object that was taken from the budget
	since time.Duration
}

// waiter is a node of a pack's swarm.
type Waiter struct {
	Pack string
	Node netip.AddrPort
}

// owed is what an address was allowed and has not fetched.
type owed struct {
	transfers int
	loose     int64 // bytes
}

// grants are the transfers that are to come or under way.
type grants struct {
	all   map[grant]granted
	owed  map[netip.Addr]owed
	noted time.Duration // when old ones were last looked for
}

// allow remembers a transfer.
func (s *grants) allow(now time.Duration, g grant, x granted) {
	s.forget(g)
	x.since = now
	s.all[g] = x
	o := s.owed[g.node]
	s.owed[g.node] = owed{o.transfers + 1, o.loose + x.loose}
}

// forget takes back a transfer that was allowed, or is over.
func (s *grants) forget(g grant) (x granted, ok bool) {
	if x, ok = s.all[g]; !ok {
		return x, false
	}
	delete(s.all, g)
	o := s.owed[g.node]
	if o = (owed{o.transfers - 1, o.loose - x.loose}); o.transfers <= 0 {
		delete(s.owed, g.node)
	} else {
		s.owed[g.node] = o
	}
	return x, true
}

// hasRoom tells whether one more transfer of an address is remembered. One that is not stands in line as any that
// nobody granted.
func (s *grants) hasRoom(node netip.Addr) bool { return s.owed[node].transfers < owedMost }

// expire forgets what was allowed long ago, now and then.
func (s *grants) expire(now time.Duration) {
	if now < s.noted+noteLost/4 {
		return
	}
	s.noted = now
	for g, x := range s.all {
		if now > x.since+noteLost {
			s.forget(g)
		}
	}
}

// Note remembers that a node was granted pieces of a pack, whose ids these are.
func (t *Tracker) Note(now time.Duration, key string, node netip.AddrPort, pieces []int, ids []chunk.ID) {
	for _, p := range pieces {
		if p < len(ids) && t.grants.hasRoom(node.Addr()) {
			t.grants.allow(now, grant{node.Addr(), ids[p].Brief()}, granted{Waiter: Waiter{key, node}, piece: p})
		}
	}
	t.grants.expire(now)
}

// ObjectSent says that the server has sent an object to a node, well or not. Only what was granted counts.
func (t *Tracker) ObjectSent(node netip.Addr, object chunk.Brief) {
	x, ok := t.grants.forget(grant{node, object})
	switch {
	case !ok || x.piece == mapPiece:
	case x.piece == bodyPiece:
		t.BodySent(node)
	default:
		t.Sent(x.Pack, x.Node, x.piece)
	}
}

// Find answers a question for a loose object as Loose does, and keeps the uplink free for one that the server is to
// send, once. For one who is in no swarm, or asked for much that it never fetched, it does not: that stands in line
// when it is asked for.
func (t *Tracker) Find(
	now time.Duration,
	id chunk.Brief,
	node netip.AddrPort,
	size int64,
) (names []netip.AddrPort, wait time.Duration) {
	size = believed(size)
	if names, wait = t.Loose(now, id, node, size); len(names) > 0 {
		return names, wait
	}
	g := grant{node.Addr(), id}
	t.grants.expire(now)
	if _, again := t.grants.all[g]; again || !t.Has(g.node) || !t.grants.hasRoom(g.node) ||
		t.grants.owed[g.node].loose+size > owedLoose {
		return nil, 0
	}
	t.Expect(now, g.node, size)
	t.grants.allow(now, g, granted{piece: bodyPiece, loose: size})
	return nil, 0
}
