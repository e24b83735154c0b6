package dhcp

import (
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"sync"
	"time"

	"pando/internal/fleet"
)

// rangeFor is how long the records of a range are cached. The cache only saves look-ups: an address that it shows as
// free is looked up before it is offered, and one that becomes free is noticed this much later.
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
	t.mu.Lock() // also while reading: other packets need the same range
	defer t.mu.Unlock()
	known, err := t.of(leases, s, now)
	if err != nil {
		return fleet.Lease{}, false, err
	}
	l, found := known.by[a]
	return l, found, nil
}

// use counts the addresses in the range of a subnet by their holders.
func (t *ranges) use(leases Leases, s Subnet, now time.Time) (Use, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, err := t.of(leases, s, now)
	if err != nil {
		return Use{}, err
	}
	return Count(maps.Values(known.by), s, now), nil
}

// Use counts the addresses of a range by their holders.
type Use struct {
	All     int // addresses
	Known   int // of nodes: valid leases, and fixed addresses
	Unknown int // of machines that are no nodes
	InUse   int // by machines that did not get them here
}

// Free returns how many addresses nobody has.
func (u Use) Free() int { return max(u.All-u.Known-u.Unknown-u.InUse, 0) }

// Count counts the addresses in the range of a subnet by their holders.
func Count(leases iter.Seq[fleet.Lease], s Subnet, now time.Time) Use {
	u := Use{All: s.size()}
	for l := range leases {
		switch {
		case !s.inRange(l.Addr):
		case l.Static:
			u.Known++
		case !now.Before(l.Expires):
		case l.Bad:
			u.InUse++
		case l.Known:
			u.Known++
		default:
			u.Unknown++
		}
	}
	return u
}

// of returns the cached records of a range, and reads them if they are older than rangeFor. The lock is held.
func (t *ranges) of(leases Leases, s Subnet, now time.Time) (*taken, error) {
	known := t.m[s.First]
	if known == nil || now.Sub(known.read) >= rangeFor || now.Before(known.read) {
		all, err := leases.LeasesIn(s.First, s.Last)
		if err != nil {
			return nil, fmt.Errorf("read the leases of %s-%s: %w", s.First, s.Last, err)
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
	return known, nil
}

// learn updates the cache with a record that was read or written since.
func (t *ranges) learn(l fleet.Lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for first, known := range t.m {
		if !l.Addr.Less(first) && !known.last.Less(l.Addr) {
			known.by[l.Addr] = l
		}
	}
}
