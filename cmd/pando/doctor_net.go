package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/dhcp"
)

// lookTime is how long to listen for DHCP servers. dnsmasq pings an address for three seconds before it offers it.
const lookTime = 6 * time.Second

// checkDHCP looks for DHCP servers on the interface.
func checkDHCP(ctx context.Context, o doctorOptions) []finding {
	if o.quick {
		return nil
	}
	names := []string{o.iface}
	if o.iface == "" {
		names = usable()
	}
	var out []finding
	for _, name := range names {
		others, err := dhcp.DiscoverServers(ctx, name, lookTime)
		if err != nil {
			out = append(out, found(note, "run doctor as root", "cannot look for DHCP servers: %v", err)...)
			continue
		}
		out = append(out, dhcpFindings(name, others)...)
	}
	return out
}

func dhcpFindings(name string, others []dhcp.Found) []finding {
	servers, proxies := split(others)
	var out []finding
	switch len(servers) {
	case 0:
		out = found(fine, "", "no DHCP server answers on %s: use --dhcp own, or one of the site's", name)
	case 1:
		out = found(fine, "", "DHCP server %s answers on %s: Pando works beside it (--dhcp proxy)", servers[0], name)
	default:
		out = found(
			warning,
			"find the one that should not be there, by its address",
			"%d DHCP servers answer on %s: %s",
			len(servers),
			name,
			strings.Join(servers, " "),
		)
	}
	if len(proxies) > 0 {
		out = append(out, found(warning, "stop the other one: firmware takes whichever answers first",
			"another network boot server (proxyDHCP) answers on %s: %s", name, strings.Join(proxies, " "))...)
	}
	return out
}

// split tells servers that give addresses from those that only tell what to boot.
func split(others []dhcp.Found) (servers, proxies []string) {
	for _, f := range others {
		if f.Proxy {
			proxies = append(proxies, f.Server.String())
		} else {
			servers = append(servers, f.Server.String())
		}
	}
	return servers, proxies
}

// usable are the interfaces that nodes could be on: up, not the loopback, with an IPv4 address.
func usable() []string {
	var names []string
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagRunning != 0 && len(ipv4Of(i)) > 0 {
			names = append(names, i.Name)
		}
	}
	return names
}

// firstPrefix is an interface's first IPv4 address with its prefix.
func firstPrefix(name string) (netip.Prefix, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return netip.Prefix{}, withHint(
			fmt.Errorf("interface %s: %w", name, err),
			"the interfaces are "+strings.Join(interfaceNames(), ", "),
		)
	}
	addrs := ipv4Of(*i)
	if len(addrs) == 0 {
		return netip.Prefix{}, withHint(
			fmt.Errorf("interface %s has no IPv4 address", name),
			"ip address add 10.0.0.1/24 dev "+name,
		)
	}
	return netip.ParsePrefix(addrs[0])
}

// checkNICs asks the server on this machine for nodes whose kernel had no driver for a NIC of theirs, and for nodes
// that are stuck at the link.
func (a *app) checkNICs(ctx context.Context, o doctorOptions) []finding {
	c := api.OverSocket(socketPath(o.data))
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	nodes, err := c.Nodes(ctx, "")
	if errors.Is(err, fs.ErrNotExist) {
		return found(note, "", "no server runs here, so no node has told of its NICs")
	}
	if err != nil {
		return found(note, hintOf(err), "cannot ask the server for its nodes: %v", err)
	}
	return nicFindings(nodes)
}

func nicFindings(nodes []api.Node) []finding {
	missing := map[string][]string{} // modalias -> nodes
	for _, n := range nodes {
		if n.Hardware == nil {
			continue
		}
		for _, m := range n.Hardware.Missing {
			missing[m] = append(missing[m], n.Name)
		}
	}
	if len(missing) == 0 {
		return found(fine, "", "no node told of a NIC without a driver (%d nodes)", len(nodes))
	}
	var out []finding
	for _, alias := range slices.Sorted(maps.Keys(missing)) {
		out = append(
			out,
			found(
				warning,
				"build the image from a newer kernel, or with --firmware DIR if the driver wants firmware "+
					"(`modinfo -F filename "+alias+"` on a machine of that release names the module)",
				"%s: the image's kernel has no module for NIC %s",
				strings.Join(missing[alias], ", "),
				alias,
			)...)
	}
	return out
}
