package serve

import (
	"net/netip"

	"pando/internal/dhcp"
	"pando/internal/exitcode"
)

// check refuses what makes no sense whatever this machine and its network are like.
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
	_, err := parseAddrs("dns", f.dns)
	return err
}

func (f *serveFlags) severalOwn() error {
	return exitcode.WithHint(exitcode.Usagef("--dhcp own: one interface, not %d", len(f.interfaces)),
		"name the one where Pando gives addresses; --dhcp proxy takes several")
}

// checkOwn refuses what the DHCP server would refuse at its start: a range outside the interface's subnet, say.
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
