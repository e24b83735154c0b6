package server

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pando/internal/dhcp"
	"pando/internal/fleet"
	"pando/internal/registry"
)

// recordedLeases reads and writes each lease like the DHCP server does for a packet.
type recordedLeases struct{ *site }

func (l recordedLeases) read(read func(dhcp.Leases) error) error {
	_, err := l.booter.Snapshot(l.t.Context(), dhcp.Request{}, read)
	return err
}

func (l recordedLeases) LeaseByMAC(mac fleet.MAC) (lease fleet.Lease, found bool, err error) {
	err = l.read(func(all dhcp.Leases) (err error) {
		lease, found, err = all.LeaseByMAC(mac)
		return err
	})
	return lease, found, err
}

func (l recordedLeases) LeaseByAddr(addr netip.Addr) (lease fleet.Lease, found bool, err error) {
	err = l.read(func(all dhcp.Leases) (err error) {
		lease, found, err = all.LeaseByAddr(addr)
		return err
	})
	return lease, found, err
}

func (l recordedLeases) LeasesIn(first, last netip.Addr) (out []fleet.Lease, err error) {
	err = l.read(func(all dhcp.Leases) (err error) {
		out, err = all.LeasesIn(first, last)
		return err
	})
	return out, err
}

func (l recordedLeases) SaveLease(lease fleet.Lease) error {
	return l.booter.Commit(l.t.Context(), dhcp.Change{Leases: []fleet.Lease{lease}})
}

// TestLeasesIn: a query for a range has the same result as one for each of its addresses.
func TestLeasesIn(t *testing.T) {
	s := startSite(t)
	l := recordedLeases{s}
	at := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }
	mac := func(n byte) fleet.MAC { return fleet.MAC{2, 0, 0, 0, 0, n} }
	expires := s.now().Add(time.Hour)
	for _, le := range []fleet.Lease{
		{Addr: at(5), MAC: mac(5), Expires: expires},                // before the range
		{Addr: at(20), MAC: mac(1), Expires: s.now().Add(-1)},       // ran out
		{Addr: at(21), MAC: mac(2), Expires: expires, Bad: true},    // declined
		{Addr: at(22), MAC: mac(3), Expires: expires},               // taken by the second NIC of pc2
		{Addr: at(23), MAC: mac(9), Expires: expires, Bad: true},    // declined, and then the fixed one of pc3
		{Addr: at(24), MAC: mac(8), Expires: expires, Static: true}, // of a node that had this fixed address before
		{Addr: at(31), MAC: mac(7), Expires: expires},               // after the range
	} {
		if err := l.SaveLease(le); err != nil {
			t.Fatal(err)
		}
	}
	s.update(func(tx *registry.Tx) error {
		for i, n := range []fleet.Node{
			{Name: "pc1", MACs: []fleet.MAC{mac(11)}, Address: at(25)}, // not leased yet
			{Name: "pc2", MACs: []fleet.MAC{mac(12), mac(3)}, Address: at(22)},
			{Name: "pc3", MACs: []fleet.MAC{mac(13)}, Address: at(23)},
			{Name: "pc4", MACs: []fleet.MAC{mac(14)}, Address: at(40)},
		} {
			n.State, n.Group = fleet.Adopted, "default"
			if err := tx.CreateNode(n); err != nil {
				t.Fatal(i, err)
			}
		}
		return nil
	})
	got, err := l.LeasesIn(at(20), at(30))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b fleet.Lease) int { return a.Addr.Compare(b.Addr) })
	var want []fleet.Lease
	for n := byte(20); n <= 30; n++ {
		one, found, err := l.LeaseByAddr(at(n))
		if err != nil {
			t.Fatal(err)
		}
		if found {
			want = append(want, one)
		}
	}
	same := func(a, b fleet.Lease) bool { // what a fixed address's record says about NICs is not asked for
		return a.Addr == b.Addr && a.Static == b.Static && a.Bad == b.Bad &&
			(a.Static || a.MAC == b.MAC && a.Expires.Equal(b.Expires))
	}
	if !slices.EqualFunc(got, want, same) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if n := len(want); n != 6 {
		t.Errorf("%d addresses of the range have a record", n)
	}
}

// TestKnownLeases: a MAC is known if an operator declared its node, or if its node has registered. A machine that was
// only adopted by the open policy is not known.
func TestKnownLeases(t *testing.T) {
	s := startSite(t)
	l := recordedLeases{s}
	declared, joined := fleet.MAC{2, 0, 0, 0, 0, 1}, fleet.MAC{2, 0, 0, 0, 0, 2}
	boot := registry.Boot{ID: "0123456789abcdef", MAC: joined, Node: "pc2", Started: s.now()}
	s.update(func(tx *registry.Tx) error {
		for _, n := range []fleet.Node{
			{Name: "pc1", MACs: []fleet.MAC{declared}, Created: s.now()},
			{Name: "pc2", MACs: []fleet.MAC{joined}, Created: s.now()},
		} {
			n.State, n.Group = fleet.Adopted, "default"
			if err := tx.CreateNode(n); err != nil {
				return err
			}
		}
		return tx.CreateBoot(boot)
	})
	known := func(mac fleet.MAC) bool {
		t.Helper()
		lease, _, err := l.LeaseByMAC(mac)
		if err != nil {
			t.Fatal(err)
		}
		return lease.Known
	}
	if !known(declared) || known(joined) || known(fleet.MAC{2, 0, 0, 0, 0, 3}) {
		t.Error("known before it registered: ", known(declared), known(joined), known(fleet.MAC{2, 0, 0, 0, 0, 3}))
	}
	addr := netip.MustParseAddr("10.0.0.20")
	for _, registered := range []bool{false, true} {
		if registered {
			boot.TokenUsed = s.now()
			s.update(func(tx *registry.Tx) error { return tx.PutBoot(boot) })
		}
		if known(joined) != registered {
			t.Errorf("registered %v, known %v", registered, known(joined))
		}
		if err := l.SaveLease(fleet.Lease{Addr: addr, MAC: joined, Expires: s.now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		if got, _, err := l.LeaseByAddr(addr); err != nil || got.Known != registered || known(joined) != registered {
			t.Errorf("registered %v: %+v, %v", registered, got, err)
		}
	}
}

// No NIC of a node gets a fixed address that was found in use before it became the node's.
func TestBadBeforeFixed(t *testing.T) {
	s := startSite(t)
	l := recordedLeases{s}
	a, b, seven := fleet.MAC{2, 0, 0, 0, 0, 1}, fleet.MAC{2, 0, 0, 0, 0, 2}, netip.MustParseAddr("10.0.0.7")
	if err := l.SaveLease(fleet.Lease{Addr: seven, MAC: b, Bad: true, Expires: s.now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	s.update(func(tx *registry.Tx) error {
		return tx.CreateNode(
			fleet.Node{Name: "pc1", State: fleet.Adopted, Group: "default", MACs: []fleet.MAC{a, b}, Address: seven},
		)
	})
	got, found, err := l.LeaseByAddr(seven)
	if err != nil || !found || got.MAC != a || !got.Expires.IsZero() || got.Bad || !got.Static {
		t.Errorf("%+v, %v, %v", got, found, err)
	}
}
