package dhcp

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"pando/internal/fleet"
)

// TestPickForTheSecondNIC: each NIC of a node may use the node's fixed address, one at a time. alice and bob are the
// NICs of one node; alice's is the first.
func TestPickForTheSecondNIC(t *testing.T) {
	fixed := ip4("10.77.0.50")
	carol := fleet.MAC{0x52, 0x54, 0, 0, 0, 3}
	had := func(mac fleet.MAC, left time.Duration) fleet.Lease {
		l := static("10.77.0.50", mac)
		l.Expires = noon.Add(left)
		return l
	}
	tests := []struct {
		name    string
		record  fleet.Lease // of the fixed address; zero: none took it
		by      fleet.MAC   // the machine that answers there; zero: none
		offered time.Duration
		noProbe bool
		dynamic bool
		calm    bool
		loud    bool
	}{
		{name: "nobody took it"},
		{name: "after a boot by the first one", record: had(alice, time.Hour)},
		{name: "the first one has it", record: had(alice, time.Hour), by: alice, dynamic: true, calm: true},
		{
			name:    "the first one has it longer than its lease",
			record:  had(alice, -time.Hour),
			by:      alice,
			dynamic: true,
			calm:    true,
		},
		{name: "the first one has it without a record", by: alice, dynamic: true, calm: true},
		{name: "it had it itself and the first one answers too", record: had(bob, time.Hour), by: alice},
		{name: "a stranger has it", record: had(alice, time.Hour), by: carol, dynamic: true, loud: true},
		{
			name:    "no probes, the first one's lease runs",
			record:  had(alice, time.Hour),
			noProbe: true,
			dynamic: true,
			calm:    true,
		},
		{name: "no probes, the first one's lease ran out", record: had(alice, -time.Hour), noProbe: true},
		{name: "offered to the first one a moment ago", offered: time.Second, dynamic: true, calm: true},
		{name: "offered to the first one, which did not take it", offered: 2 * exchangeFor},
	}
	for _, tt := range tests {
		m := newMemory()
		if tt.record.Addr.IsValid() {
			m.byAddr[fixed] = tt.record
		}
		m.node(static("10.77.0.50", alice), alice, bob)
		n := &neighbours{used: map[netip.Addr]fleet.MAC{}}
		if !tt.by.IsZero() {
			n.used[fixed] = tt.by
		}
		p := testPicker(m, n)
		calm, loud := 0, 0
		p.info, p.warn = func(string, ...any) { calm++ }, func(string, ...any) { loud++ }
		if tt.noProbe {
			p.probe = nil
		}
		if tt.offered != 0 {
			p.offers.reserve(alice, fixed, noon.Add(-tt.offered), offerFor, false)
		}
		mine, _, _ := m.LeaseByMAC(bob)
		got, why, err := p.allocate(t.Context(), asked(t, bob, dhcpv4.MessageTypeDiscover), *testSubnet(), mine, noon)
		want := fixed
		if tt.dynamic {
			want = derived(testSubnet(), bob)
		}
		if got != want || why != "" || err != nil {
			t.Errorf("%s: %s (%s, %v), want %s", tt.name, got, why, err, want)
		}
		if (calm == 1) != tt.calm || (loud == 1) != tt.loud || m.saves != 0 {
			t.Errorf("%s: %d calm and %d loud lines, %d leases saved", tt.name, calm, loud, m.saves)
		}
	}
}

// TestStatesOfTheSecondNIC is TestStates for the fixed address of alice's node, where bob is its first NIC.
func TestStatesOfTheSecondNIC(t *testing.T) {
	const request, fixed = dhcpv4.MessageTypeRequest, "10.77.0.50"
	untaken, now, past := static(fixed, bob), static(fixed, bob), static(fixed, bob)
	now.Expires, past.Expires = noon.Add(time.Hour), noon.Add(-time.Hour)
	pick := []dhcpv4.Modifier{requested(fixed), chose("10.77.0.1")}
	tests := []struct {
		name  string
		mods  []dhcpv4.Modifier
		hold  fleet.Lease
		offer bool
		down  bool
		reply string
		why   string
	}{
		{name: "selecting what was offered after a probe", mods: pick, hold: now, offer: true, reply: "ACK"},
		{name: "selecting after a restart", mods: pick, hold: untaken, reply: "ACK"},
		{
			name:  "selecting after a restart what the other one has",
			mods:  pick,
			hold:  now,
			reply: "NAK",
			why:   "another NIC",
		},
		{name: "init-reboot", mods: []dhcpv4.Modifier{requested(fixed)}, hold: untaken, reply: "ACK"},
		{name: "init-reboot after the other one", mods: []dhcpv4.Modifier{requested(fixed)}, hold: past, reply: "ACK"},
		{
			name:  "init-reboot with what the other one has",
			mods:  []dhcpv4.Modifier{requested(fixed)},
			hold:  now,
			reply: "NAK",
			why:   "another NIC",
		},
		{name: "renewing", mods: []dhcpv4.Modifier{having(fixed)}, hold: untaken, reply: "ACK"},
		{name: "renewing after the other one", mods: []dhcpv4.Modifier{having(fixed)}, hold: past, reply: "ACK"},
		{
			name:  "renewing what the other one has",
			mods:  []dhcpv4.Modifier{having(fixed)},
			hold:  now,
			reply: "NAK",
			why:   "another NIC",
		},
		{name: "renewing, stood down", mods: []dhcpv4.Modifier{having(fixed)}, hold: past, down: true, reply: "ACK"},
		{
			name: "renewing what the other one has, stood down",
			mods: []dhcpv4.Modifier{having(fixed)},
			hold: now,
			down: true,
			why:  "stopped giving addresses",
		},
	}
	for _, tt := range tests {
		v := testView()
		v.Lease, v.Holder = static(fixed, alice), tt.hold
		if tt.offer {
			v.Offer = ip4(fixed)
		}
		if tt.down {
			v.Mode, v.StoppedFor = Proxy, ip4("10.77.0.2")
		}
		out := Answer(asked(t, alice, request, tt.mods...), v, noon)
		if out.Seen.Reply != tt.reply || !strings.Contains(out.Seen.Reason, tt.why) ||
			(tt.why == "") != (out.Seen.Reason == "") {
			t.Errorf("%s: %s (%s), want %s (%s)", tt.name, out.Seen.Reply, out.Seen.Reason, tt.reply, tt.why)
		}
		if ack := tt.reply == "ACK"; ack != (out.Save != nil) || ack && (out.Save.MAC != alice || !out.Save.Static) {
			t.Errorf("%s: save %+v", tt.name, out.Save)
		}
	}
	// A NIC that gives the address back leaves it to the others at once.
	v := testView()
	v.Lease, v.Holder = static(fixed, bob), now
	if out := Answer(asked(t, bob, dhcpv4.MessageTypeRelease, having(fixed)), v, noon); out.Save == nil ||
		!out.Save.Static ||
		!out.Save.Expires.Equal(noon) {
		t.Errorf("release: %+v", out.Save)
	}
}

// After an ACK to one NIC the address is no longer reserved for the REQUEST of the other NIC.
func TestAcknowledgedToOneNIC(t *testing.T) {
	var o offers
	o.reserve(bob, ip4("10.77.0.50"), noon, exchangeFor, false)
	o.settle(alice, ip4("10.77.0.50"), noon)
	if a, _ := o.get(bob, noon); a.IsValid() {
		t.Errorf("%s is still kept for the other NIC", a)
	}
	o.reserve(bob, ip4("10.77.0.51"), noon, offerFor, false)
	o.settle(bob, ip4("10.77.0.51"), noon)
	if a, _ := o.get(bob, noon); !a.IsValid() {
		t.Error("its own reservation is gone")
	}
}

// A node with two NICs on one segment boots by the first one, then by the second one. While one NIC has the fixed
// address, the other gets a dynamic one. The node's kernel answers ARP for the address on both, as Linux does.
func TestBootBySecondNIC(t *testing.T) {
	t.Parallel()
	net := newNetns(t, "10.77.0.1/24")
	spec := ownSpec()
	spec.Leases = []fleet.Lease{static("10.77.0.50", alice)}
	spec.NICs = []fleet.MAC{alice, bob}
	s := net.serve(spec)
	node := net.client(aliceMAC)
	net.plug(node, "eth1", bobMAC)
	fixed := ip4("10.77.0.50")

	if a, out := node.udhcpcOn("eth0"); a != fixed {
		t.Fatalf("by the first NIC: %s: %s", a, out)
	}
	if a, out := node.udhcpcOn("eth1"); a == fixed || !testSubnet().inRange(a) {
		t.Errorf("by the second NIC, while the first has the address: %s: %s", a, out)
	}
	s.logged(`"INFO"`, "another NIC of the node", "pc001")
	for _, l := range s.drain() {
		if strings.Contains(string(l.Log), `"ERROR"`) {
			t.Errorf("alarming: %s", l.Log)
		}
	}
	node.run("ip", "addr", "flush", "dev", "eth0") // it is switched off, and boots by its second NIC
	node.run("ip", "addr", "flush", "dev", "eth1")
	if a, out := node.udhcpcOn("eth1"); a != fixed {
		t.Errorf("by the second NIC: %s: %s", a, out)
	}
	if a, out := node.udhcpcOn("eth0"); a == fixed || !testSubnet().inRange(a) {
		t.Errorf("by the first NIC, while the second has the address: %s: %s", a, out)
	}
	// The NIC that has the address sends a request again, and the other NIC answers the probe.
	if a, out := node.udhcpcOn("eth1"); a != fixed {
		t.Errorf("by the second NIC again: %s: %s", a, out)
	}
}
