package dhcp

import (
	"context"
	"net/netip"
	"sync"

	"pando/internal/fleet"
)

// memory is a Registry without durability. failSave makes a Commit of leases fail, as a full disk does.
type memory struct {
	mu        sync.Mutex
	byAddr    map[netip.Addr]fleet.Lease
	fixed     map[fleet.MAC]fleet.Lease // of nodes with several NICs
	known     map[fleet.MAC]bool        // of nodes that have registered
	failSave  error
	saves     int
	snapshots int
	commits   []Change
	menu      bool // what is known of every client
	lookUps   int  // by MAC and by address
	ranges    int  // reads of a range
}

// node gives a node of several NICs a fixed address that none of the NICs has taken yet.
func (m *memory) node(l fleet.Lease, macs ...fleet.MAC) {
	m.fixed = map[fleet.MAC]fleet.Lease{}
	for _, mac := range macs {
		m.fixed[mac] = fleet.Lease{Addr: l.Addr, MAC: mac, Host: l.Host, Static: true}
	}
	if _, taken := m.byAddr[l.Addr]; !taken {
		m.byAddr[l.Addr] = m.fixed[macs[0]]
	}
}

func newMemory(leases ...fleet.Lease) *memory {
	m := &memory{byAddr: map[netip.Addr]fleet.Lease{}}
	for _, l := range leases {
		m.byAddr[l.Addr] = l
	}
	return m
}

func (m *memory) LeaseByMAC(mac fleet.MAC) (fleet.Lease, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lookUps++
	if l, ok := m.fixed[mac]; ok {
		return l, true, nil
	}
	var best fleet.Lease
	for _, l := range m.byAddr {
		if l.MAC != mac || l.Bad {
			continue
		}
		if !best.Addr.IsValid() || l.Static && !best.Static ||
			l.Static == best.Static && l.Expires.After(best.Expires) {
			best = l
		}
	}
	best.Known = best.Known || m.known[mac]
	return best, best.Addr.IsValid(), nil
}

func (m *memory) LeaseByAddr(a netip.Addr) (fleet.Lease, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lookUps++
	l, ok := m.byAddr[a]
	return l, ok, nil
}

func (m *memory) LeasesIn(first, last netip.Addr) ([]fleet.Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ranges++
	var out []fleet.Lease
	for a, l := range m.byAddr {
		if !a.Less(first) && !last.Less(a) {
			out = append(out, l)
		}
	}
	return out, nil
}

// Snapshot implements Registry.
func (m *memory) Snapshot(_ context.Context, _ Request, read func(Leases) error) (Known, error) {
	m.mu.Lock()
	m.snapshots++
	m.mu.Unlock()
	if read == nil {
		return Known{Menu: m.menu}, nil
	}
	return Known{}, read(m)
}

// Commit implements Registry.
func (m *memory) Commit(_ context.Context, c Change) error {
	m.mu.Lock()
	m.commits = append(m.commits, c)
	m.mu.Unlock()
	for _, l := range c.Leases {
		if err := m.save(l); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) save(l fleet.Lease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failSave != nil {
		return m.failSave
	}
	m.saves++
	if !l.Bad {
		for a, o := range m.byAddr {
			if o.MAC == l.MAC && !o.Static && !o.Bad {
				delete(m.byAddr, a)
			}
		}
	}
	m.byAddr[l.Addr] = l
	return nil
}
