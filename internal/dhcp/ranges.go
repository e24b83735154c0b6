package dhcp

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"pando/internal/fleet"
)

// rangeFor is how long what was read of a range is used. It only spares look-ups: an address that it shows as
// free is looked up before it is offered, and one that becomes free is noticed so much later.
const rangeFor = 2 * time.Second

// ranges are the records of whole ranges, read when one is so full that free addresses have to be searched for.
type ranges struct {
	mu sync.Mutex
	m  map[netip.Addr]*taken // by a range's first address
}

// taken are the addresses of a range that have a record.
type taken struct {
	read time.Time
	last netip.Addr
	by   map[netip.Addr]fleet.Lease
}

// holder returns the record of an address in the range of a subnet.
func (t *ranges) holder(
	leases Leases,
	s Subnet,
	a netip.Addr,
	now time.Time,
) (fleet.Lease, bool, error) {
	t.mu.Lock() // also while reading: those who come meanwhile need the same
	defer t.mu.Unlock()
	known := t.m[s.First]
	if known == nil || now.Sub(known.read) >= rangeFor || now.Before(known.read) {
		all, err := leases.LeasesIn(s.First, s.Last)
		if err != nil {
			return fleet.Lease{}, false, fmt.Errorf("read the leases of %s-%s: %w", s.First, s.Last, err)
		}
		known = &taken{read: now, last: s.Last, by: make(map[netip.Addr]fleet.Lease, len(all))}
		for _, l := range all {
			known.by[l.Addr] = l
		}
		if t.m == nil {
			t.m = map[netip.Addr]*taken{}
		}
		t.m[s.First] = known
	}
	l, found := known.by[a]
	return l, found, nil
}

// learn takes in a record that is newer than what was read.
func (t *ranges) learn(l fleet.Lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for first, known := range t.m {
		if !l.Addr.Less(first) && !known.last.Less(l.Addr) {
			known.by[l.Addr] = l
		}
	}
}
