package operator

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"pando/internal/dhcp"
	"pando/internal/fleet"
	"pando/internal/httpapi"
)

// addresses checks which fixed addresses nodes may have.
type addresses struct {
	subnets func() []dhcp.Subnet // in which this server gives addresses; none: nothing is checked
	own     func() []netip.Addr  // addresses of this machine
}

// ownAddresses returns the addresses of this machine's interfaces; none if they cannot be read.
func ownAddresses() (out []netip.Addr) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p.Addr())
		}
	}
	return out
}

// check refuses a new fixed address that no DHCP answer could give to the node.
func (x addresses) check(was, is fleet.Node) error {
	a := is.Address
	if !a.IsValid() || a == was.Address {
		return nil
	}
	refuse := func(why, do string) error {
		return httpapi.BadRequest(fmt.Sprintf("node %s: address %s %s", is.Name, a, why), do)
	}
	if slices.Contains(x.own(), a) {
		return refuse("is the server's own", "choose another one")
	}
	subnets := x.subnets()
	if len(subnets) == 0 {
		return nil
	}
	var served []string
	for _, s := range subnets {
		served = append(served, s.Prefix.Masked().String())
		switch {
		case !s.Prefix.Contains(a):
			continue
		case a == s.Prefix.Masked().Addr() || a == broadcast(s.Prefix):
			return refuse("is the network or broadcast address of "+s.Prefix.Masked().String(), "choose another one")
		case slices.Contains(s.Routers, a):
			return refuse("is the router's", "choose another one")
		}
		return nil
	}
	return refuse("is in no network in which this server gives addresses",
		"choose one of "+strings.Join(served, ", ")+"; see --range of pando serve")
}

// broadcast returns the last address of an IPv4 network.
func broadcast(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		a[bit/8] |= 1 << (7 - bit%8)
	}
	return netip.AddrFrom4(a)
}
