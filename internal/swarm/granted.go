package swarm

import (
	"net/netip"
	"time"

	"pando/internal/chunk"
)

// grantMemory is the time after which an unused grant is forgotten.
const grantMemory = time.Minute

// Limits of the unused grants of one address, so that requests alone neither fill the memory nor block the uplink.
const (
	maxOwed       = 256     // transfers: a node with all its extensions has fewer
	maxOwedDemand = 2 << 20 // bytes of demand objects
)

// grant names a transfer from the server that a node was allowed.
type grant struct {
	node   netip.Addr
	object chunk.ShortID
}

// granted is what the tracker remembers about a grant.
type granted struct {
	PackNode
	piece       int
	demandBytes int64 // size of a demand object that was charged to the uplink
	since       time.Duration
}

// PackNode is a node in the swarm of a pack.
type PackNode struct {
	Pack string
	Node netip.AddrPort
}

// owed counts the unused grants of one address.
type owed struct {
	transfers   int
	demandBytes int64
}

// grants holds the transfers that were allowed and have not ended.
type grants struct {
	all       map[grant]granted
	owed      map[netip.Addr]owed
	expiredAt time.Duration // when old ones were last removed
}

// allow adds a grant.
func (s *grants) allow(now time.Duration, g grant, x granted) {
	s.forget(g)
	x.since = now
	s.all[g] = x
	o := s.owed[g.node]
	s.owed[g.node] = owed{o.transfers + 1, o.demandBytes + x.demandBytes}
}

// forget removes a grant that is over.
func (s *grants) forget(g grant) (x granted, ok bool) {
	if x, ok = s.all[g]; !ok {
		return x, false
	}
	delete(s.all, g)
	o := s.owed[g.node]
	if o = (owed{o.transfers - 1, o.demandBytes - x.demandBytes}); o.transfers <= 0 {
		delete(s.owed, g.node)
	} else {
		s.owed[g.node] = o
	}
	return x, true
}

// hasRoom reports whether an address may have one more grant. A transfer without a grant waits in the object queue.
func (s *grants) hasRoom(node netip.Addr) bool { return s.owed[node].transfers < maxOwed }

// expire removes old grants, at most once in grantMemory/4.
func (s *grants) expire(now time.Duration) {
	if now < s.expiredAt+grantMemory/4 {
		return
	}
	s.expiredAt = now
	for g, x := range s.all {
		if now > x.since+grantMemory {
			s.forget(g)
		}
	}
}

// NoteGrants remembers that a node was granted pieces of a pack. ids are the objects of all pieces of the pack.
func (t *Tracker) NoteGrants(now time.Duration, key string, node netip.AddrPort, pieces []int, ids []chunk.ID) {
	for _, p := range pieces {
		if p < len(ids) && t.grants.hasRoom(node.Addr()) {
			t.grants.allow(now, grant{node.Addr(), ids[p].Short()}, granted{PackNode: PackNode{key, node}, piece: p})
		}
	}
	t.grants.expire(now)
}

// ObjectSent notes that the server has sent an object to a node, or failed to. Objects without a grant are ignored.
func (t *Tracker) ObjectSent(node netip.Addr, object chunk.ShortID) {
	x, ok := t.grants.forget(grant{node, object})
	switch {
	case !ok || x.piece == mapPiece:
	case x.piece == objectPiece:
		t.objectDone(node)
	default:
		t.Sent(x.Pack, x.Node, x.piece)
	}
}

// FindDemand returns peers that have or will have a demand object, and how long they may take. Without such peers the
// server sends the object, and its bytes are reserved on the uplink once. Nothing is reserved for a node that is in no
// swarm or has many unused grants: its transfer waits in the object queue.
func (t *Tracker) FindDemand(
	now time.Duration,
	id chunk.ShortID,
	node netip.AddrPort,
	size int64,
) (names []netip.AddrPort, wait time.Duration) {
	size = boundSize(size)
	if names, wait = t.demandHolders(now, id, node, size); len(names) > 0 {
		return names, wait
	}
	g := grant{node.Addr(), id}
	t.grants.expire(now)
	if _, again := t.grants.all[g]; again || !t.Has(g.node) || !t.grants.hasRoom(g.node) ||
		t.grants.owed[g.node].demandBytes+size > maxOwedDemand {
		return nil, 0
	}
	t.expectObject(now, g.node, size)
	t.grants.allow(now, g, granted{piece: objectPiece, demandBytes: size})
	return nil, 0
}
