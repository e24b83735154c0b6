package peer

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// Bounds of what is remembered of loose objects: 32,768 of them take about 6 MB.
const (
	maxLoose    = 32768
	maxFetchers = 4
	looseFor    = 2 * time.Minute // a node may have let go of it after that
)

// fetched is a loose object and who fetched it last.
type fetched struct {
	who  [maxFetchers]netip.AddrPort
	when [maxFetchers]time.Duration
	next int
}

// loose remembers the recent fetchers of objects outside of packs. The oldest object goes when there are too many.
type loose struct {
	objects map[chunk.ID]*fetched
	order   []chunk.ID
}

// Loose decides about an object outside of any pack: nil means send it; otherwise these have it, the one that fetched it
// last first. Once the uplink is spent, whoever can be named is named.
func (t *Tracker) Loose(now time.Duration, id chunk.ID, node netip.AddrPort, size int64) []netip.AddrPort {
	f := t.loose.objects[id]
	if f != nil && !t.uplink.free(now, size) {
		if names := t.fetchers(now, f, node); len(names) > 0 {
			f.add(now, node) // it will have it soon
			return names
		}
	}
	t.uplink.pass(now, size)
	if f == nil {
		f = t.loose.put(id)
	}
	f.add(now, node)
	return nil
}

func (t *Tracker) fetchers(now time.Duration, f *fetched, node netip.AddrPort) []netip.AddrPort {
	var out []netip.AddrPort
	asks := t.member(node)
	for i := range maxFetchers {
		at := (f.next - 1 - i + 2*maxFetchers) % maxFetchers
		a := f.who[at]
		if !a.IsValid() || a == node || now > f.when[at]+looseFor || t.banned[a.Addr()] || slices.Contains(out, a) {
			continue
		}
		// Who is in no swarm now may be gone, and nobody knows where it stands.
		if has := t.member(a); has != nil && asks != nil && asks.mayMeet(has) {
			out = append(out, a)
		}
	}
	return out
}

func (f *fetched) add(now time.Duration, node netip.AddrPort) {
	if node.IsValid() && !slices.Contains(f.who[:], node) {
		f.who[f.next], f.when[f.next] = node, now
		f.next = (f.next + 1) % maxFetchers
	}
}

func (l *loose) put(id chunk.ID) *fetched {
	if l.objects == nil {
		l.objects = map[chunk.ID]*fetched{}
	}
	if len(l.order) >= maxLoose {
		delete(l.objects, l.order[0])
		l.order = l.order[1:]
	}
	f := &fetched{}
	l.objects[id] = f
	l.order = append(l.order, id)
	return f
}
