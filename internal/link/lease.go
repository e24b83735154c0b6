package link

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"pando/internal/fleet"
)

// VendorClass is DHCP option 60 of init's and the agent's client. It tells the server that this is not firmware, so no
// new boot begins.
const VendorClass = "pando-init"

// Lease is what DHCP gave the node. Times are durations on the monotonic clock of the machine, because the
// wall clock may be set after the lease was given.
type Lease struct {
	Interface int          `json:"interface"`
	Name      string       `json:"name"`
	MAC       fleet.MAC    `json:"mac"`
	Address   netip.Prefix `json:"address"`
	Routes    []Route      `json:"routes,omitempty"`
	Server    netip.Addr   `json:"server"` // server identifier
	DNS       []netip.Addr `json:"dns,omitempty"`
	Domain    string       `json:"domain,omitempty"`
	Host      string       `json:"host,omitempty"`
	MTU       int          `json:"mtu,omitempty"`

	Acquired time.Duration `json:"acquired"` // CLOCK_MONOTONIC
	Length   time.Duration `json:"length"`
	Renew    time.Duration `json:"renew"`  // T1, since Acquired
	Rebind   time.Duration `json:"rebind"` // T2, since Acquired
}

// shortestLease is the length that a shorter lease counts as. The length only decides when to renew, because the node
// never gives up the address.
const (
	shortestLease = time.Minute
	shortestRenew = shortestLease / 2
)

// NewLease reads an ACK (RFC 2131). T1 and T2 default to 1/2 and 7/8 of the lease.
func NewLease(n NIC, ack *dhcpv4.DHCPv4, now time.Duration) (Lease, error) {
	l := Lease{Interface: n.Index, Name: n.Name, MAC: n.MAC, Acquired: now}
	addr, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	if !ok || addr.IsUnspecified() {
		return l, fmt.Errorf("DHCP answer gives no address")
	}
	bits, _ := ack.SubnetMask().Size()
	if bits == 0 {
		bits, _ = ack.YourIPAddr.DefaultMask().Size()
	}
	l.Address = netip.PrefixFrom(addr, bits)
	l.Server, _ = netip.AddrFromSlice(ack.ServerIdentifier().To4())
	l.Routes = routes(ack)
	for _, ip := range ack.DNS() {
		if a, ok := netip.AddrFromSlice(ip.To4()); ok {
			l.DNS = append(l.DNS, a)
		}
	}
	l.Domain, l.Host = ack.DomainName(), ack.HostName()
	if mtu, err := dhcpv4.GetUint16(dhcpv4.OptionInterfaceMTU, ack.Options); err == nil && mtu >= 576 {
		l.MTU = int(mtu)
	}
	l.Length = max(ack.IPAddressLeaseTime(time.Hour), shortestLease)
	l.Renew = max(ack.IPAddressRenewalTime(l.Length/2), shortestRenew)
	l.Rebind = ack.IPAddressRebindingTime(l.Length * 7 / 8)
	if l.Renew <= 0 || l.Renew > l.Rebind || l.Rebind > l.Length {
		l.Renew, l.Rebind = l.Length/2, l.Length*7/8
	}
	return l, nil
}

// routes returns the classless routes (RFC 3442), which replace the router option, else the first router.
func routes(ack *dhcpv4.DHCPv4) []Route {
	var out []Route
	for _, r := range ack.ClasslessStaticRoute() {
		bits, _ := r.Dest.Mask.Size()
		to, ok := netip.AddrFromSlice(r.Dest.IP.To4())
		via, _ := netip.AddrFromSlice(r.Router.To4())
		if !ok {
			continue
		}
		route := Route{To: netip.PrefixFrom(to, bits).Masked()}
		if bits == 0 {
			route.To = netip.Prefix{}
		}
		if via.IsValid() && !via.IsUnspecified() {
			route.Via = via
		}
		out = append(out, route)
	}
	if len(out) > 0 {
		return out
	}
	for _, ip := range ack.Router() {
		if via, ok := netip.AddrFromSlice(ip.To4()); ok && !via.IsUnspecified() {
			return []Route{{Via: via}}
		}
	}
	return nil
}

// Network returns the lease as the block daemon keeps it up.
func (l Lease) Network() Network {
	return Network{Interface: l.Interface, Name: l.Name, MAC: l.MAC, MTU: l.MTU,
		Addresses: []netip.Prefix{l.Address}, Routes: l.Routes}
}
