package dhcp

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"pando/internal/fleet"
)

// neighbours answers probes: it says which machine uses which address.
type neighbours struct {
	used   map[netip.Addr]fleet.MAC
	probes []netip.Addr
	err    error
}

func (n *neighbours) probe(_ context.Context, a netip.Addr, own fleet.MAC) (fleet.MAC, bool, error) {
	n.probes = append(n.probes, a)
	mac, ok := n.used[a]
	return mac, ok && mac != own, n.err
}

func testPicker(m *memory, n *neighbours) *allocator {
	return &allocator{
		again:  func(_ context.Context, read func(Leases) error) error { return read(m) },
		ranges: &ranges{},
		offers: &offers{},
		probe:  n,
		warn:   func(string, ...any) {},
		info:   func(string, ...any) {},
		avoid:  func(a netip.Addr) bool { return a == ip4("10.77.0.1") },
	}
}

// allocate runs the whole search for one DISCOVER, and records its result.
func (p *allocator) allocate(
	ctx context.Context,
	r Request,
	s Subnet,
	mine fleet.Lease,
	now time.Time,
) (netip.Addr, string, error) {
	var w *allocation
	var m *memory
	err := p.again(ctx, func(l Leases) (err error) {
		m = l.(*memory)
		w, err = p.begin(l, r, s, mine, now)
		return err
	})
	if err != nil {
		return netip.Addr{}, "", err
	}
	a, why, err := w.finish(ctx)
	if err == nil {
		err = m.Commit(ctx, Change{Leases: w.bad})
	}
	return a, why, err
}

// derived returns the address that comes from a MAC.
func derived(s *Subnet, mac fleet.MAC) netip.Addr {
	for a := range s.candidates(mac) {
		return a
	}
	return netip.Addr{}
}

func TestPick(t *testing.T) {
	s := testSubnet()
	first := derived(s, alice)
	second := first.Next()
	tests := []struct {
		name   string
		leases []fleet.Lease
		wish   string
		used   map[netip.Addr]fleet.MAC
		want   netip.Addr
		saved  int
	}{
		{name: "derived from the MAC", want: first},
		{name: "what it asks for", wish: "10.77.0.111", want: ip4("10.77.0.111")},
		{name: "asks outside the range", wish: "10.77.0.11", want: first},
		{
			name:   "its own before what it asks for",
			wish:   "10.77.0.111",
			leases: []fleet.Lease{lease("10.77.0.140", alice, -time.Hour)},
			want:   ip4("10.77.0.140"),
		},
		{
			name:   "its fixed one, outside the range",
			wish:   "10.77.0.111",
			leases: []fleet.Lease{static("10.77.0.50", alice)},
			want:   ip4("10.77.0.50"),
		},
		{
			name:   "its old one is no longer in the range",
			leases: []fleet.Lease{lease("10.77.0.50", alice, time.Hour)},
			want:   first,
		},
		{
			name:   "derived one is another's",
			leases: []fleet.Lease{{Addr: first, MAC: bob, Expires: noon.Add(time.Hour)}},
			want:   second,
		},
		{
			name:   "derived one was another's",
			leases: []fleet.Lease{{Addr: first, MAC: bob, Expires: noon.Add(-time.Hour)}},
			want:   second,
		},
		{
			name:   "derived one is fixed for another",
			leases: []fleet.Lease{{Addr: first, MAC: bob, Static: true}},
			want:   second,
		},
		{
			name:   "derived one was declined",
			leases: []fleet.Lease{{Addr: first, MAC: alice, Bad: true, Expires: noon.Add(time.Hour)}},
			want:   second,
		},
		{
			name:   "declined long ago",
			leases: []fleet.Lease{{Addr: first, MAC: bob, Bad: true, Expires: noon.Add(-time.Hour)}},
			want:   first,
		},
		{name: "derived one is used by a stranger", used: map[netip.Addr]fleet.MAC{first: bob}, want: second, saved: 1},
		{name: "used by its own firmware", used: map[netip.Addr]fleet.MAC{first: alice}, want: first},
		{
			name:   "fixed one is used by a stranger",
			leases: []fleet.Lease{static("10.77.0.50", alice)},
			used:   map[netip.Addr]fleet.MAC{ip4("10.77.0.50"): bob},
			want:   first,
		},
	}
	for _, tt := range tests {
		m := newMemory(tt.leases...)
		n := &neighbours{used: tt.used}
		p := testPicker(m, n)
		var mods []dhcpv4.Modifier
		if tt.wish != "" {
			mods = append(mods, requested(tt.wish))
		}
		mine, _, _ := m.LeaseByMAC(alice)
		mine.Known = true
		r := asked(t, alice, dhcpv4.MessageTypeDiscover, mods...)
		got, why, err := p.allocate(t.Context(), r, *s, mine, noon)
		if got != tt.want || why != "" || err != nil {
			t.Errorf("%s: %s (%s, %v), want %s", tt.name, got, why, err, tt.want)
		}
		if m.saves != tt.saved {
			t.Errorf("%s: %d leases saved, want %d", tt.name, m.saves, tt.saved)
		}
		probes := len(n.probes)
		if again, _, _ := p.allocate(t.Context(), r, *s, mine, noon.Add(offerFor/2)); again != got ||
			len(n.probes) != probes && !mine.Static {
			t.Errorf("%s: asked again, got %s after %d more probes", tt.name, again, len(n.probes)-probes)
		}
	}
}

func TestPickWhenFull(t *testing.T) {
	s := testSubnet()
	s.First, s.Last = ip4("10.77.0.100"), ip4("10.77.0.102")
	carol := fleet.MAC{0x52, 0x54, 0, 0, 0, 3}
	m := newMemory(
		lease("10.77.0.100", bob, time.Hour),
		lease("10.77.0.101", carol, -time.Hour),
		static("10.77.0.102", carol),
	)
	p := testPicker(m, &neighbours{})
	r := asked(t, alice, dhcpv4.MessageTypeDiscover)
	if a, _, err := p.allocate(t.Context(), r, *s, fleet.Lease{}, noon); a != ip4("10.77.0.101") || err != nil {
		t.Errorf("got %s, %v, want the one that ran out", a, err)
	}
	// The address is reserved for alice now, so no other client gets it.
	dave := fleet.MAC{0x52, 0x54, 0, 0, 0, 4}
	a, why, err := p.allocate(t.Context(), asked(t, dave, dhcpv4.MessageTypeDiscover), *s, fleet.Lease{}, noon)
	if a.IsValid() || err != nil || !strings.Contains(why, "no free address") {
		t.Errorf("got %s (%s), %v, want none", a, why, err)
	}
	// After the offer has expired, another client gets it.
	if a, _, _ := p.allocate(t.Context(), asked(t, dave, dhcpv4.MessageTypeDiscover), *s, fleet.Lease{},
		noon.Add(2*offerFor)); a != ip4(
		"10.77.0.101",
	) {
		t.Errorf("got %s", a)
	}
}

func TestPickGivesUpWhenAllAreUsed(t *testing.T) {
	s := testSubnet()
	used := map[netip.Addr]fleet.MAC{}
	for a := range s.candidates(alice) {
		used[a] = bob
	}
	n := &neighbours{used: used}
	a, why, err := testPicker(
		newMemory(),
		n,
	).allocate(t.Context(), asked(t, alice, dhcpv4.MessageTypeDiscover), *s, fleet.Lease{}, noon)
	if a.IsValid() || err != nil || !strings.Contains(why, "have no lease") || len(n.probes) != maxConflicts {
		t.Errorf("got %s (%s), %v after %d probes", a, why, err, len(n.probes))
	}
}

func TestPickErrors(t *testing.T) {
	s := testSubnet()
	r := asked(t, alice, dhcpv4.MessageTypeDiscover)
	boom := errors.New("boom")
	if _, _, err := testPicker(newMemory(), &neighbours{err: boom}).allocate(t.Context(), r, *s, fleet.Lease{},
		noon); !errors.Is(
		err,
		boom,
	) {
		t.Errorf("probe fails: %v", err)
	}
	m := newMemory()
	m.failSave = boom
	n := &neighbours{used: map[netip.Addr]fleet.MAC{derived(s, alice): bob}}
	if _, _, err := testPicker(m, n).allocate(t.Context(), r, *s, fleet.Lease{}, noon); !errors.Is(err, boom) {
		t.Errorf("record fails: %v", err)
	}
}

func TestOffersExpire(t *testing.T) {
	var o offers
	reserve := func(mac fleet.MAC, a string, now time.Time) bool { return o.reserve(mac, ip4(a), now, offerFor, false) }
	if !reserve(alice, "10.77.0.100", noon) || reserve(bob, "10.77.0.100", noon.Add(time.Second)) {
		t.Error("an address was reserved twice")
	}
	o.clean(alice)
	if a, probed := o.get(alice, noon); a != ip4("10.77.0.100") || !probed {
		t.Errorf("get = %s, %v", a, probed)
	}
	if !reserve(alice, "10.77.0.101", noon) || !reserve(bob, "10.77.0.100", noon) {
		t.Error("an address that was given up is not free")
	}
	if _, probed := o.get(alice, noon); probed {
		t.Error("another address counts as probed")
	}
	o.expire(noon.Add(2 * offerFor))
	if len(o.byMAC)+len(o.byAddr)+len(o.probed) != 0 {
		t.Errorf("left: %+v", &o)
	}
}
