package swarm

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// Loose objects go round as a tree: who asks is named one who fetches the object or has it, and is named to others
// himself. Who does not have it yet lets those wait that ask him for it. So a crowd that reads the same at the same
// moment costs the server one copy, as pieces do.
const (
	maxLoose    = 32768           // objects that are remembered
	maxFetchers = 16              // of each
	looseFor    = 2 * time.Minute // a node may have let go of it after that
	looseNamed  = 3               // how often a node is named first: so many times it sends the object
	looseNames  = 3               // in an answer; the others are for when the first fails
	looseRound  = 64              // times what an object takes to send is how long it may take to come round
)

// fetcher is one who fetches a loose object, or has it.
type fetcher struct {
	node  netip.AddrPort
	when  time.Duration
	named int // first
}

// loose remembers the recent fetchers of objects outside of packs, the oldest first; those that were named often
// enough are forgotten. The oldest object goes when there are too many.
type loose struct {
	objects map[chunk.Brief][]fetcher
	order   []chunk.Brief
}

// Loose decides about an object outside of any pack: no names mean that the server sends it. Otherwise these have
// it or will have it, and wait is how long the node may wait for them. Once the uplink is spent, or K fills it,
// whoever can be named is named.
func (t *Tracker) Loose(
	now time.Duration,
	id chunk.Brief,
	node netip.AddrPort,
	size int64,
) (names []netip.AddrPort, wait time.Duration) {
	t.over(now)
	if t.busy || !t.uplink.free(now, size) {
		names = t.fetchers(now, id, node)
	}
	t.loose.add(now, id, node)
	if len(names) > 0 {
		return names, looseRound*t.uplink.time(size) + 2*t.late(t.Nodes())
	}
	return nil, 0
}

// Expect counts a loose object that the server is about to send to a node; BodySent ends that.
func (t *Tracker) Expect(now time.Duration, node netip.Addr, size int64) {
	t.uplink.spend(sending{node: sender(node), piece: bodyPiece, since: now}, size)
}

// fetchers are those to name to a node, the first of which is to send.
func (t *Tracker) fetchers(now time.Duration, id chunk.Brief, node netip.AddrPort) (names []netip.AddrPort) {
	asks, all := t.member(node), t.loose.objects[id]
	for i := range all {
		x := &all[i]
		if x.node == node || x.named >= looseNamed || now > x.when+looseFor || t.bans.has(x.node.Addr()) {
			continue
		}
		// Who is in no swarm now may be gone, and nobody knows where it stands.
		if has := t.member(x.node); has == nil || asks == nil || !asks.mayMeet(has) {
			continue
		}
		if len(names) == 0 {
			x.named++
		}
		if names = append(names, x.node); len(names) == looseNames {
			break
		}
	}
	return names
}

// add notes that a node will have an object, if there is room.
func (l *loose) add(now time.Duration, id chunk.Brief, node netip.AddrPort) {
	if !node.IsValid() {
		return
	}
	all, known := l.objects[id]
	if !known {
		l.room(id)
	}
	useless := func(x fetcher) bool { return x.named >= looseNamed || now > x.when+looseFor }
	if slices.ContainsFunc(all, func(x fetcher) bool { return x.node == node && now <= x.when+looseFor }) {
		return
	}
	all = slices.DeleteFunc(
		all,
		func(x fetcher) bool { return x.node == node || len(all) >= maxFetchers && useless(x) },
	)
	if len(all) < maxFetchers {
		all = append(all, fetcher{node: node, when: now})
	}
	l.objects[id] = all
}

// room makes room for one more object.
func (l *loose) room(id chunk.Brief) {
	if l.objects == nil {
		l.objects = map[chunk.Brief][]fetcher{}
	}
	if len(l.order) >= maxLoose {
		delete(l.objects, l.order[0])
		l.order = l.order[1:]
	}
	l.order = append(l.order, id)
}
