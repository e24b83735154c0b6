package serve

import (
	"bufio"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
)

// gatewayIn returns the default gateway of this machine if it is in the subnet, so that nodes of the subnet can use it.
func gatewayIn(subnet netip.Prefix) []netip.Addr {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil // no default route: a boot network often has no gateway
	}
	for _, r := range routes {
		if r.Dst != nil && !r.Dst.IP.IsUnspecified() {
			continue
		}
		if gw, ok := netip.AddrFromSlice(r.Gw.To4()); ok && subnet.Contains(gw) {
			return []netip.Addr{gw}
		}
	}
	return nil
}

// nameServers reads resolv.conf. It omits name servers on the loopback, which other machines cannot reach.
func nameServers(path string) []netip.Addr {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	var out []netip.Addr
	s := bufio.NewScanner(f)
	for s.Scan() {
		word, value, _ := strings.Cut(strings.TrimSpace(s.Text()), " ")
		if word != "nameserver" {
			continue
		}
		a, err := netip.ParseAddr(strings.TrimSpace(value))
		if err == nil && a.Is4() && !a.IsLoopback() && !a.IsUnspecified() {
			out = append(out, a)
		}
	}
	return out
}
