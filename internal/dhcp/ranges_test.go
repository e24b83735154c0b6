package dhcp

import (
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"pando/internal/fleet"
)

// A full range costs a few look-ups for a packet, and one read of the range for all packets of a moment.
func TestFullRangeCostsFewLookUps(t *testing.T) {
	s := *testSubnet()
	s.First, s.Last = ip4("10.77.0.1"), ip4("10.77.15.254")
	m := newMemory()
	for n := number(s.First); n <= number(s.Last); n++ {
		m.byAddr[address(n)] = fleet.Lease{Addr: address(n), MAC: bob, Expires: noon.Add(time.Hour)}
	}
	p := testPicker(m, &neighbours{})
	const packets = 100
	ask := func(i int, now time.Time) (found bool) {
		t.Helper()
		mac := fleet.MAC{0x52, 0x54, 0, 1, byte(i >> 8), byte(i)}
		a, why, err := p.allocate(t.Context(), asked(t, mac, dhcpv4.MessageTypeDiscover), s, fleet.Lease{}, now)
		if err != nil || a.IsValid() == (why != "") {
			t.Fatal(a, why, err)
		}
		return a.IsValid()
	}
	for i := range packets {
		if ask(i, noon) {
			t.Error("an address is offered out of nothing")
		}
	}
	t.Logf("%d packets: %d look-ups, %d reads of the range", packets, m.lookUps, m.ranges)
	if m.lookUps > packets*maxLookUps || m.ranges != 1 {
		t.Errorf("%d packets cost %d look-ups and %d reads of the range", packets, m.lookUps, m.ranges)
	}
	// An address that becomes free is found, wherever it is, and given once.
	delete(m.byAddr, ip4("10.77.9.9"))
	late := noon.Add(rangeFor)
	if !ask(packets, late) || ask(packets+1, late) {
		t.Error("the one free address was not given to the first who asked")
	}
	// So is an address whose lease ran out: it was read as taken, and then its holder released it.
	freed := fleet.Lease{Addr: ip4("10.77.3.3"), MAC: bob, Expires: late}
	m.byAddr[freed.Addr] = freed
	p.ranges.learn(freed)
	if !ask(packets+2, late) {
		t.Error("an address that was given back was not found")
	}
}

// Clients that have not yet taken their offers cost later clients nothing.
func TestReservedAddressesCostNoLookUps(t *testing.T) {
	s := *testSubnet()
	m := newMemory()
	p := testPicker(m, &neighbours{})
	n := 0
	for a := range s.candidates(alice) {
		if n++; n > 60 {
			break
		}
		p.offers.reserve(fleet.MAC{0x52, 0x54, 0, 2, 0, byte(n)}, a, noon, offerFor, false)
	}
	if a, _, err := p.allocate(t.Context(), asked(t, alice, dhcpv4.MessageTypeDiscover), s, fleet.Lease{},
		noon); !a.IsValid() ||
		err != nil ||
		m.lookUps != 1 {
		t.Errorf("%s, %v after %d look-ups", a, err, m.lookUps)
	}
}
