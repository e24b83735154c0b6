package server

import (
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"pando/internal/api"
	"pando/internal/dhcp"
)

// TestStatusTellsItsPorts: the status has the ports that the server got, wherever its flags put them.
func TestStatusTellsItsPorts(t *testing.T) {
	s := startSite(t)
	c := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	defer c.Close()
	st, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tftp := netip.MustParseAddrPort(s.listeners.tftp.LocalAddr().String()).Port()
	for _, want := range []api.Port{
		{Net: "tcp", Number: s.DataPort(), Use: "boot files and images", Address: local},
		{Net: "tcp", Number: s.ControlPort(), Use: "control port", Address: local},
		{Net: "udp", Number: tftp, Use: "TFTP", Address: local, File: "undionly.kpxe"},
	} {
		if !slices.ContainsFunc(st.Ports, func(p api.Port) bool {
			return p.Net == want.Net && p.Number == want.Number && p.Use == want.Use && p.Address == want.Address &&
				p.File == want.File
		}) {
			t.Errorf("no %+v in %+v", want, st.Ports)
		}
	}
}

// TestStatusOfSeveralLinks: each interface of DHCP is in the status, not the first alone.
func TestStatusOfSeveralLinks(t *testing.T) {
	states := []dhcp.State{{Interface: "eth1"}, {Interface: "eth2"}}
	var got api.DHCP
	if addStates(&got, states); !slices.Equal(got.Interfaces, []string{"eth1", "eth2"}) {
		t.Errorf("%+v", got)
	}
	ports := dhcpPorts(states)
	if len(ports) != 2 || !slices.Equal(ports[0].Interfaces, []string{"eth1", "eth2"}) ||
		!slices.Equal(ports[1].Interfaces, []string{"eth1", "eth2"}) {
		t.Errorf("%+v", ports)
	}
	if ports := dhcpPorts(nil); len(ports) != 0 {
		t.Errorf("without DHCP: %+v", ports)
	}
}
