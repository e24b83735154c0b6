package dhcp

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"pando/internal/fleet"
)

// A packet costs one snapshot of the records and one commit of its lease and its Seen.
func TestPacketCost(t *testing.T) {
	relayed := dhcpv4.WithRelay(ip(ip4("10.77.0.254")))
	asks := []dhcpv4.Modifier{requested("10.77.0.120"), chose("10.77.0.1"), relayed}
	full := newMemory()
	for a := range testSubnet().candidates(alice) {
		full.byAddr[a] = fleet.Lease{Addr: a, MAC: bob, Expires: noon.Add(time.Hour)}
	}
	tests := []struct {
		name   string
		mode   Mode
		m      *memory
		typ    dhcpv4.MessageType
		mods   []dhcpv4.Modifier
		leases int
		reply  string
	}{
		{"own discover", Own, newMemory(), dhcpv4.MessageTypeDiscover, []dhcpv4.Modifier{relayed}, 0, "OFFER"},
		{"own discover in a full range", Own, full, dhcpv4.MessageTypeDiscover, []dhcpv4.Modifier{relayed}, 0, ""},
		{"own request", Own, newMemory(), dhcpv4.MessageTypeRequest, asks, 1, "ACK"},
		{"proxy discover", Proxy, newMemory(), dhcpv4.MessageTypeDiscover, []dhcpv4.Modifier{relayed}, 0, ""},
		{"proxy request", Proxy, newMemory(), dhcpv4.MessageTypeRequest, asks, 0, ""},
	}
	for _, tt := range tests {
		s := &Server{
			Config:   Config{Mode: tt.mode, NoProbe: true, Subnets: []Subnet{*testSubnet()}},
			Registry: tt.m,
			Now:      func() time.Time { return noon },
		}
		l := testLink()
		l.dhcp = &net.UDPConn{} // sends nothing
		s.handle(t.Context(), l, asked(t, alice, tt.typ, tt.mods...), netip.AddrPort{}, false)
		if tt.m.snapshots != 1 || len(tt.m.commits) != 1 {
			t.Errorf("%s: %d snapshots, %d commits", tt.name, tt.m.snapshots, len(tt.m.commits))
			continue
		}
		got := tt.m.commits[0]
		if len(got.Leases) != tt.leases || got.Seen.MAC != alice || got.Seen.Reply != tt.reply {
			t.Errorf("%s: committed %+v", tt.name, got)
		}
	}
}
