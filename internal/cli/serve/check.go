package serve

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"pando/internal/dhcp"
	"pando/internal/exitcode"
)

// check refuses flags that would be wrong on every machine and network.
func (f *serveFlags) check() error {
	if f.dhcp != "" {
		mode, err := f.mode()
		if err != nil {
			return err
		}
		if mode == dhcp.Own && len(f.interfaces) > 1 {
			return f.severalOwn()
		}
	}
	if f.addresses != "" {
		if _, _, err := addressRange(f.addresses, netip.Prefix{}); err != nil {
			return err
		}
	}
	if _, err := parseAddrs("router", f.routers); err != nil {
		return err
	}
	if _, err := parseAddrs("dns", f.dns); err != nil {
		return err
	}
	for _, text := range f.servers {
		if err := checkServer(text); err != nil {
			return err
		}
	}
	for flag, text := range map[string]string{"http": f.http, "control": f.control, "tftp": f.tftp,
		"netconsole": f.netconsole, "dashboard": f.dashboard} {
		if err := checkListen(flag, text); err != nil {
			return err
		}
	}
	return nil
}

// checkMachines refuses gateways that nodes of a subnet would not reach, and addresses that no machine can have.
func checkMachines(subnet netip.Prefix, routers, dns []netip.Addr) error {
	for _, a := range routers {
		if !subnet.Contains(a) {
			return exitcode.Usagef("--router %s is not in %s: nodes would not reach it", a, subnet)
		}
	}
	for flag, addrs := range map[string][]netip.Addr{"router": routers, "dns": dns} {
		for _, a := range addrs {
			if subnet.Contains(a) && !(dhcp.Subnet{Prefix: subnet}).Usable(a) {
				return exitcode.Usagef("--%s %s is the network or broadcast address of %s: no machine has it", flag, a,
					subnet)
			}
		}
	}
	return nil
}

// checkServer refuses a URL of another server from which no node can get objects.
func checkServer(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
		strings.ContainsAny(text, " \t\n\"'$"):
		return exitcode.Usagef("--also %q: want the base URL of an image port, such as http://10.0.0.2:8480", text)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return exitcode.Usagef("--also %q: leave user, query and fragment out: every node is told it", u.Redacted())
	}
	return nil
}

// checkListen refuses an address on which the server cannot listen.
func checkListen(flag, text string) error {
	if text == "" || text == "off" && flag != "http" && flag != "control" {
		return nil
	}
	host, port, err := net.SplitHostPort(text)
	if err == nil && host != "" && host != "localhost" {
		_, err = netip.ParseAddr(host)
	}
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return exitcode.Usagef("--%s %q: want an address and a port of this machine, such as :8480 or 10.0.0.1:8480",
			flag, text)
	}
	return nil
}

func (f *serveFlags) severalOwn() error {
	return exitcode.WithHint(exitcode.Usagef("--dhcp own: one interface, not %d", len(f.interfaces)),
		"name the one where Pando gives addresses; --dhcp proxy takes several")
}

// checkOwn refuses flags that the DHCP server would refuse at its start, such as a range outside the interface's
// subnet.
func (f serveFlags) checkOwn() error {
	f.dhcp = string(dhcp.Own)
	c, err := f.dhcpConfig()
	if err != nil {
		return err
	}
	if err := c.Validate(); err != nil {
		return exitcode.AsUsage(err)
	}
	return nil
}
