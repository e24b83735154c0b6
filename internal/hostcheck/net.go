package hostcheck

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
	"pando/internal/cmdenv"
	"pando/internal/dhcp"
	"pando/internal/exitcode"
)

// ListenTime is how long to listen for DHCP servers. dnsmasq pings an address for three seconds before it offers it.
const ListenTime = 6 * time.Second

// checkDHCP looks for DHCP servers on the interface.
func checkDHCP(ctx context.Context, o Options) []Finding {
	if o.Quick {
		return nil
	}
	own := ownStatus(ctx, o).DHCP
	names := []string{o.Interface}
	if o.Interface == "" {
		names = UsableInterfaces()
	}
	var out []Finding
	for _, name := range names {
		others, err := dhcp.DiscoverServers(ctx, name, ListenTime)
		if err != nil {
			out = append(out, found(note, "run doctor as root", "cannot look for DHCP servers: %v", err)...)
			continue
		}
		out = append(out, dhcpFindings(name, others, own)...)
	}
	return out
}

// ownStatus returns the status of the server on this machine, the zero Status if no server runs.
func ownStatus(ctx context.Context, o Options) api.Status {
	c := api.OverSocket(cmdenv.SocketPath(o.Data))
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	st, err := c.Status(ctx)
	if err != nil { // the check of NICs reports this error
		return api.Status{}
	}
	return st
}

// dhcpFindings turns the DHCP servers that answered on an interface into findings. The server on this machine does not
// receive its own broadcasts, so own is its state.
func dhcpFindings(name string, others []dhcp.Found, own api.DHCP) []Finding {
	servers, proxies := SplitProxies(others)
	var out []Finding
	gives := own.Mode == string(dhcp.Own) && (len(own.Interfaces) == 0 || slices.Contains(own.Interfaces, name))
	if gives && own.Addresses.Short() {
		out = found(Warning, "give a larger --range, or see who has them: pando lease list", "%s", own.Addresses.Text())
	}
	switch {
	case gives && own.Stopped() != "":
		out = append(out, found(Warning, api.StoppedHint, "%s on %s", own.Stopped(), name)...)
	case gives && len(servers) > 0:
		out = append(out, found(Warning, "stop one of the two", "this server gives addresses on %s, and another DHCP "+
			"server answers: %s", name, strings.Join(servers, " "))...)
	case gives:
		out = append(out, found(Fine, "", "this server gives addresses on %s, and no other one answers", name)...)
	default:
		out = foreignFindings(name, servers)
	}
	if len(proxies) > 0 {
		out = append(out, found(Warning, "stop the other one: firmware takes whichever answers first",
			"another network boot server (proxyDHCP) answers on %s: %s", name, strings.Join(proxies, " "))...)
	}
	return out
}

// foreignFindings is dhcpFindings for a network where this machine gives no addresses.
func foreignFindings(name string, servers []string) (out []Finding) {
	switch len(servers) {
	case 0:
		out = found(Fine, "", "no DHCP server answers on %s: use --dhcp own, or one of the site's", name)
	case 1:
		out = found(Fine, "", "DHCP server %s answers on %s: Pando works beside it (--dhcp proxy)", servers[0], name)
	default:
		out = found(
			Warning,
			"find the one that should not be there, by its address",
			"%d DHCP servers answer on %s: %s",
			len(servers),
			name,
			strings.Join(servers, " "),
		)
	}
	return out
}

// SplitProxies separates servers that give addresses from proxies, which only say what to boot. Pando servers are
// marked.
func SplitProxies(others []dhcp.Found) (servers, proxies []string) {
	for _, f := range others {
		switch {
		case f.Proxy:
			proxies = append(proxies, f.Server.String())
		case f.Pando != "":
			servers = append(servers, f.Server.String()+" (a Pando)")
		default:
			servers = append(servers, f.Server.String())
		}
	}
	return servers, proxies
}

// UsableInterfaces returns the interfaces that nodes could be on: up, not the loopback, with an IPv4 address.
func UsableInterfaces() []string {
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

// FirstPrefix returns an interface's first IPv4 address with its prefix length.
func FirstPrefix(name string) (netip.Prefix, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return netip.Prefix{}, exitcode.WithHint(
			fmt.Errorf("interface %s: %w", name, err),
			NameOne("the interfaces are"),
		)
	}
	addrs := ipv4Of(*i)
	if len(addrs) == 0 {
		return netip.Prefix{}, exitcode.WithHint(
			fmt.Errorf("interface %s has no IPv4 address", name),
			"ip address add 10.0.0.1/24 dev "+name,
		)
	}
	return netip.ParsePrefix(addrs[0])
}

// checkNICs asks the server on this machine for nodes whose kernel lacks a driver for a NIC, and for nodes that wait
// for a link.
func checkNICs(env *cmdenv.Env, ctx context.Context, o Options) []Finding {
	c := api.OverSocket(cmdenv.SocketPath(o.Data))
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	nodes, err := c.Nodes(ctx, "")
	if errors.Is(err, fs.ErrNotExist) {
		return found(note, "", "no server runs here, so no node has told of its NICs")
	}
	if err != nil {
		return found(note, exitcode.HintOf(err), "cannot ask the server for its nodes: %v", err)
	}
	return nicFindings(nodes)
}

// checkSecrets asks the server on this machine for secrets that no node gets.
func checkSecrets(env *cmdenv.Env, ctx context.Context, o Options) []Finding {
	c := api.OverSocket(cmdenv.SocketPath(o.Data))
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	secrets, err := c.Secrets(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return found(note, exitcode.HintOf(err), "cannot ask the server for its secrets: %v", err)
	}
	var out []Finding
	for _, s := range secrets {
		if c := s.ForClasses(); len(c) > 0 {
			out = append(out, found(Warning, fmt.Sprintf("pando secret set %s --for @GROUP", s.Name),
				"secret %s is for %s: no secret is given for the hardware that a machine says it has", s.Name, c[0])...)
		}
	}
	return out
}

func nicFindings(nodes []api.Node) []Finding {
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
		return found(Fine, "", "no node told of a NIC without a driver (%d nodes)", len(nodes))
	}
	var out []Finding
	for _, alias := range slices.Sorted(maps.Keys(missing)) {
		out = append(
			out,
			found(
				Warning,
				"build the image with --driver MODULE (`modinfo -F filename "+alias+"` on a machine of that release "+
					"names it), with --firmware DIR if the driver wants firmware, or else from a newer kernel",
				"%s: the image has no driver for NIC %s",
				strings.Join(missing[alias], ", "),
				alias,
			)...)
	}
	return out
}
