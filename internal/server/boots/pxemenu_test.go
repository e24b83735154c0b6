package boots

import (
	"net/netip"
	"testing"
	"time"

	"pando/internal/bootlog"
	"pando/internal/dhcp"
	"pando/internal/fleet"
	"pando/internal/netboot"
	"pando/internal/tftp"
)

// rom is a machine whose firmware requests its boot file after a plain offer, after a menu, or after neither.
type rom struct {
	t           *testing.T
	s           *Service
	mac         fleet.MAC
	plain, menu bool
}

// start runs one attempt of the firmware. It reports whether a menu was offered.
func (r rom) start(kind netboot.Kind) (menu bool) {
	r.t.Helper()
	addr := netip.MustParseAddr("10.0.0.9")
	client := netboot.Client{Kind: kind}
	for _, seen := range []dhcp.Seen{
		{MAC: r.mac, Client: client, Message: "DISCOVER", Reply: "OFFER"},
		{MAC: r.mac, Client: client, Message: "REQUEST", Requested: addr},
	} {
		known, err := r.s.Snapshot(r.t.Context(), dhcp.Request{MAC: r.mac, Client: client}, nil)
		if err == nil {
			err = r.s.Commit(r.t.Context(), dhcp.Change{Node: known.Node, Seen: seen})
		}
		if err != nil {
			r.t.Fatal(err)
		}
		if seen.Message == "DISCOVER" {
			menu = known.Menu
		}
	}
	if menu && r.menu || !menu && r.plain {
		r.s.ObserveTFTP(tftp.Transfer{Peer: netip.AddrPortFrom(addr, 2000), Name: "undionly.kpxe", Bytes: 9, Size: 9})
		r.s.exchange(r.t, r.mac, addr)
	}
	return menu
}

// exchange runs iPXE's own DHCP exchange, after which the boot is recorded.
func (s *Service) exchange(t *testing.T, mac fleet.MAC, addr netip.Addr) {
	t.Helper()
	client := netboot.Client{Kind: netboot.IPXE}
	for _, seen := range []dhcp.Seen{{MAC: mac, Client: client, Message: "DISCOVER", Reply: "OFFER"},
		{MAC: mac, Client: client, Message: "REQUEST", Requested: addr}} {
		if err := s.Commit(t.Context(), dhcp.Change{Seen: seen}); err != nil {
			t.Fatal(err)
		}
	}
}

// Firmware that ignores a plain boot file is offered a menu, and at once at its next start, also after a restart of the
// server. Firmware that takes a plain boot file never sees a menu.
func TestFirmwareThatWantsAMenuGetsOne(t *testing.T) {
	for _, x := range []struct {
		name        string
		plain, menu bool
		kind        netboot.Kind
		want        []bool
	}{
		{"takes a plain boot file", true, true, netboot.PXE, []bool{false, false, false, false, false}},
		{"takes a menu only", false, true, netboot.PXE, []bool{false, false, true, true, true}},
		{"takes nothing", false, false, netboot.PXE, []bool{false, false, true, true, false, false, true}},
		{"is no PXE", false, true, netboot.HTTPBoot, []bool{false, false, false, false}},
	} {
		s, r := observer(t)
		close(r.blocked)
		m := rom{t, s, fleet.MAC{2, 0, 0, 0, 0, 9}, x.plain, x.menu}
		for i, want := range x.want {
			if got := m.start(x.kind); got != want {
				t.Errorf("a machine that %s: attempt %d: a menu: %t, want %t", x.name, i+1, got, want)
			}
		}
		last := x.want[len(x.want)-1]
		before := s.packets
		m.s = New(Config{Registry: r, Boots: bootlog.New(r, time.Now, before.log), Discovery: before.discovery,
			Now: time.Now, Log: before.log, GivesAddresses: func() bool { return false }})
		if got := m.start(x.kind); (x.plain || x.menu) && got != last {
			t.Errorf("a machine that %s: after a restart of the server a menu: %t, want %t", x.name, got, last)
		}
	}
}

// A node whose firmware no longer takes the menu, because port 4011 was closed, gets the plain boot file again.
func TestMenuIsGivenUpWhenItIsIgnored(t *testing.T) {
	s, r := observer(t)
	close(r.blocked)
	m := rom{t, s, fleet.MAC{2, 0, 0, 0, 0, 8}, false, true}
	for range 3 {
		m.start(netboot.PXE)
	}
	m.plain, m.menu = true, false
	for i, want := range []bool{true, true, false, false} {
		if got := m.start(netboot.PXE); got != want {
			t.Errorf("attempt %d: a menu: %t, want %t", i+1, got, want)
		}
	}
}
