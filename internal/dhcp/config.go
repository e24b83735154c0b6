package dhcp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pando/internal/netboot"
)

// Mode says which part of DHCP this server does.
type Mode string

// The modes.
const (
	Off   Mode = "off"
	Own   Mode = "own"   // be the network's DHCP server
	Proxy Mode = "proxy" // send boot files beside the network's DHCP server
)

// ParseMode checks the name of a mode.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Off, Own, Proxy:
		return m, nil
	}
	return "", fmt.Errorf("DHCP mode %q: use off, own or proxy", s)
}

// Bounds of a lease time. A client renews after half of it, and a boot must not last longer.
const (
	leastLeaseTime = 2 * time.Minute
	mostLeaseTime  = 365 * 24 * time.Hour
)

// unknownLeaseTime is the lease of a machine that is no node yet: long enough for a boot. Made-up machines keep
// addresses no longer than that, and get no more than unknownShare of a range.
const (
	unknownLeaseTime = 10 * time.Minute
	unknownShare     = 0.75
)

// Defaults of a Config.
const (
	DefaultLeaseTime = 12 * time.Hour
	DefaultDataPort  = 8480
)

// Config is what an operator decides.
type Config struct {
	Mode       Mode
	Interfaces []string // names; requests are answered on these and no others
	Subnets    []Subnet // for Own: at least one; also those behind relay agents
	DataPort   uint16   // the image port; 0: DefaultDataPort
	BaseURL    string   // URL of the image port as nodes see it; "": http://<address that answers>:DataPort

	// Loaders returns the boot files at hand now; nil: there are none.
	Loaders func() netboot.Loaders `json:"-"`

	// NoProbe leaves out the probe before an address is offered, for segments where ARP does not work.
	NoProbe bool
}

// Subnet is a network whose addresses are given out, and the options for its clients.
type Subnet struct {
	Prefix    netip.Prefix
	First     netip.Addr // of the dynamic range; zero: static leases only
	Last      netip.Addr // inclusive
	Routers   []netip.Addr
	DNS       []netip.Addr
	NTP       []netip.Addr
	Domain    string
	Search    []string      // domain search list
	LeaseTime time.Duration // 0: DefaultLeaseTime
}

// loaders returns the boot files at hand now.
func (c Config) loaders() netboot.Loaders {
	if c.Loaders == nil {
		return nil
	}
	return c.Loaders()
}

// Validate returns all errors of the configuration at once.
func (c Config) Validate() error {
	if c.Mode == Off || c.Mode == "" {
		return nil
	}
	var errs []error
	if _, err := ParseMode(string(c.Mode)); err != nil {
		errs = append(errs, err)
	}
	if len(c.Interfaces) == 0 {
		errs = append(errs, errors.New("DHCP: no interface named (--interface)"))
	}
	if c.Mode == Own && len(c.Subnets) == 0 {
		errs = append(errs, errors.New("DHCP: no subnet to give addresses of (--range)"))
	}
	for i, s := range c.Subnets {
		errs = append(errs, s.validate())
		for _, o := range c.Subnets[:i] {
			if o.Prefix.IsValid() && s.Prefix.IsValid() && o.Prefix.Overlaps(s.Prefix) {
				errs = append(errs, fmt.Errorf("DHCP subnet %s overlaps %s", s.Prefix, o.Prefix))
			}
		}
	}
	return errors.Join(errs...)
}

func (s Subnet) validate() error {
	if !s.Prefix.IsValid() || !s.Prefix.Addr().Is4() || s.Prefix.Bits() > 30 {
		return fmt.Errorf("DHCP subnet %s: an IPv4 prefix of at most 30 bits is needed", s.Prefix)
	}
	for _, name := range append([]string{s.Domain}, s.Search...) {
		if name != "" && !domainName(name) {
			return fmt.Errorf("DHCP subnet %s: %q is not a domain name", s.Prefix, name)
		}
	}
	for _, a := range slices.Concat(s.Routers, s.DNS, s.NTP) {
		if !a.Is4() {
			return fmt.Errorf("DHCP subnet %s: router, DNS or NTP server %s is not an IPv4 address", s.Prefix, a)
		}
	}
	if s.LeaseTime != 0 && (s.LeaseTime < leastLeaseTime || s.LeaseTime > mostLeaseTime) {
		return fmt.Errorf("DHCP lease time %s: it has to be from %s to %s", s.LeaseTime, leastLeaseTime, mostLeaseTime)
	}
	if !s.First.IsValid() && !s.Last.IsValid() {
		return nil
	}
	if !s.Usable(s.First) || !s.Usable(s.Last) || s.Last.Less(s.First) {
		return fmt.Errorf("DHCP range %s-%s: not a range of host addresses of %s", s.First, s.Last, s.Prefix)
	}
	return nil
}

// domainName checks what is put into options 15 and 119 (RFC 1035 section 2.3.4).
func domainName(name string) bool {
	if len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if label == "" || len(label) > 63 ||
			strings.ContainsFunc(label, func(r rune) bool { return r <= 0x20 || r > 0x7e }) {
			return false
		}
	}
	return true
}

// Usable reports whether a is a host address of the subnet.
func (s Subnet) Usable(a netip.Addr) bool {
	if !a.Is4() || !s.Prefix.Contains(a) {
		return false
	}
	return a != s.Prefix.Masked().Addr() && a != lastAddr(s.Prefix)
}

// serves reports whether a is a router or server that the clients are told of, which is never theirs.
func (s Subnet) serves(a netip.Addr) bool {
	return slices.Contains(s.Routers, a) || slices.Contains(s.DNS, a) || slices.Contains(s.NTP, a)
}

// inRange reports whether a is in the dynamic range.
func (s Subnet) inRange(a netip.Addr) bool {
	return s.First.IsValid() && a.Is4() && !a.Less(s.First) && !s.Last.Less(a)
}

// size is how many addresses the dynamic range has.
func (s Subnet) size() int {
	if !s.First.IsValid() {
		return 0
	}
	return int(number(s.Last)-number(s.First)) + 1
}

// forUnknown is how many addresses machines that are no nodes may have at once.
func (s Subnet) forUnknown() int { return max(int(unknownShare*float64(s.size())), 1) }

func (s Subnet) leaseTime(known bool) time.Duration {
	d := s.LeaseTime
	if d <= 0 {
		d = DefaultLeaseTime
	}
	if !known {
		d = min(d, unknownLeaseTime)
	}
	return d
}
