package operator

import (
	"net/netip"
	"strings"
	"testing"

	"pando/internal/dhcp"
	"pando/internal/fleet"
)

func TestFixedAddressIsNotTheServers(t *testing.T) {
	t.Parallel()
	x := addresses{func() []dhcp.Subnet { return nil },
		func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("10.77.0.1")} }}
	n := fleet.Node{Name: "pc001", Address: netip.MustParseAddr("10.77.0.1")}
	if err := x.check(fleet.Node{}, n); err == nil || !strings.Contains(err.Error(), "is the server's own") {
		t.Errorf("taken: %v", err)
	}
	if err := x.check(n, n); err != nil {
		t.Errorf("what it has already is in the way of other changes: %v", err)
	}
	n.Address = netip.MustParseAddr("10.78.0.9") // another server gives addresses and is responsible
	if err := x.check(fleet.Node{}, n); err != nil {
		t.Error(err)
	}
	if got := broadcast(netip.MustParsePrefix("10.77.0.9/22")).String(); got != "10.77.3.255" {
		t.Errorf("the last of 10.77.0.0/22 is %s", got)
	}
}
