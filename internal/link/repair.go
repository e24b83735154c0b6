package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Missing returns what the kernel does not have of n, and the present index of its interface.
func Missing(n Network) (index int, gone []string, err error) {
	link, err := findInterface(n)
	if err != nil {
		return 0, nil, err
	}
	index = link.Attrs().Index
	if index != n.Interface {
		gone = append(gone, "interface index")
	}
	if link.Attrs().RawFlags&unix.IFF_UP == 0 {
		gone = append(gone, "link")
	}
	addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return 0, nil, fmt.Errorf("list addresses: %w", err)
	}
	for _, want := range n.Addresses {
		if !hasAddress(addrs, want) {
			gone = append(gone, "address "+want.String())
		}
	}
	routes, err := netlink.RouteListFiltered(
		netlink.FAMILY_ALL,
		&netlink.Route{LinkIndex: index},
		netlink.RT_FILTER_OIF,
	)
	if err != nil {
		return 0, nil, fmt.Errorf("list routes: %w", err)
	}
	for _, p := range n.Addresses {
		// The route that comes with an address can be deleted alone, and then no machine on the link answers.
		if !p.IsSingleIP() && !hasRoute(routes, Route{To: p.Masked()}) {
			gone = append(gone, "route to "+p.Masked().String())
		}
	}
	for _, want := range n.Routes {
		if !hasRoute(routes, want) {
			gone = append(gone, fmt.Sprintf("route to %s via %s", destination(want), want.Via))
		}
	}
	return index, gone, nil
}

// findInterface returns the interface by its index or, if a reload of the driver changed the index, the device with its
// MAC. A VLAN or bridge with the same MAC is not the device.
func findInterface(n Network) (netlink.Link, error) {
	link, err := netlink.LinkByIndex(n.Interface)
	if err == nil {
		return link, nil
	}
	var gone netlink.LinkNotFoundError
	if !errors.As(err, &gone) {
		return nil, fmt.Errorf("interface %s: %w", n.Name, err)
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", n.Name, err)
	}
	for _, l := range links {
		a := l.Attrs()
		switch l.Type() {
		case "vlan", "bridge", "bond", "macvlan", "ipvlan":
			continue
		}
		if !n.MAC.IsZero() && a.HardwareAddr.String() == n.MAC.String() {
			return l, nil
		}
	}
	return nil, fmt.Errorf("interface %s (index %d, %s) is gone", n.Name, n.Interface, n.MAC)
}

func hasAddress(have []netlink.Addr, want netip.Prefix) bool {
	for _, a := range have {
		if p, ok := prefix(a.IPNet); ok && p == want {
			return true
		}
	}
	return false
}

func hasRoute(have []netlink.Route, want Route) bool {
	for _, r := range have {
		to, ok := prefix(r.Dst)
		if r.Dst == nil {
			to, ok = netip.PrefixFrom(netip.IPv4Unspecified(), 0), true
		}
		via, _ := netip.AddrFromSlice(r.Gw)
		if !ok || to != destination(want) || want.Via.IsValid() && via.Unmap() != want.Via {
			continue
		}
		if want.Metric == 0 || want.Metric == r.Priority {
			return true
		}
	}
	return false
}

// destination returns the prefix that a route leads to; of a default route that of its family.
func destination(r Route) netip.Prefix {
	switch {
	case r.To.IsValid():
		return r.To.Masked()
	case r.Via.Is6():
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

func prefix(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), ones), ok
}

// Repair restores everything of n. The kernel drops a link's routes when it goes down, and adds the routes of an
// address only when the address is new, so Repair adds them itself.
func Repair(n Network) error {
	if err := Up(n.Interface); err != nil {
		return err
	}
	addresses := n
	addresses.Routes = nil
	if err := Apply(addresses); err != nil {
		return err
	}
	for _, p := range n.Addresses {
		if p.IsSingleIP() {
			continue
		}
		r := netlinkRoute(n.Interface, Route{To: p.Masked()})
		r.Src, r.Protocol = net.IP(p.Addr().AsSlice()), unix.RTPROT_KERNEL
		if err := netlink.RouteReplace(r); err != nil {
			return fmt.Errorf("add route to %s: %w", p.Masked(), err)
		}
	}
	return Apply(n)
}
