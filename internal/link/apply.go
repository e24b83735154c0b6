package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Up brings an adapter up.
func Up(index int) error {
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: index}}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring up interface %d: %w", index, err)
	}
	return nil
}

// LoopbackUp brings lo up. The kernel then gives lo its address.
func LoopbackUp() error { return Up(1) }

// Apply gives the adapter its MTU, addresses and routes. It replaces, so it may be called again.
func Apply(n Network) error {
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: n.Interface, Name: n.Name}}
	if n.MTU > 0 {
		if err := netlink.LinkSetMTU(link, n.MTU); err != nil {
			return fmt.Errorf("set MTU %d of %s: %w", n.MTU, n.Name, err)
		}
	}
	for _, p := range n.Addresses {
		if err := netlink.AddrReplace(link, &netlink.Addr{IPNet: IPNet(p)}); err != nil {
			return fmt.Errorf("give %s the address %s: %w", n.Name, p, err)
		}
	}
	for _, r := range n.Routes {
		if err := netlink.RouteReplace(netlinkRoute(n.Interface, r)); err != nil {
			return fmt.Errorf("add route %s via %s: %w", r.To, r.Via, err)
		}
	}
	return nil
}

// RemoveAddress removes an address, and with it the routes that depend on it.
func RemoveAddress(index int, p netip.Prefix) error {
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: index}}
	err := netlink.AddrDel(link, &netlink.Addr{IPNet: IPNet(p)})
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("remove address %s: %w", p, err)
	}
	return nil
}

func netlinkRoute(index int, r Route) *netlink.Route {
	out := &netlink.Route{LinkIndex: index, Priority: r.Metric}
	if r.To.IsValid() {
		out.Dst = IPNet(r.To)
	} else {
		out.Dst = &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	}
	if r.Via.IsValid() {
		out.Gw = net.IP(r.Via.AsSlice())
		out.Flags = int(netlink.FLAG_ONLINK)
	} else {
		out.Scope = netlink.SCOPE_LINK
	}
	return out
}

// IPNet returns a prefix in the form that netlink needs.
func IPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: net.IP(p.Addr().AsSlice()), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
