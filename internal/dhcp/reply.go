package dhcp

import (
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/rfc1035label"

	"pando/internal/netboot"
)

// newReply starts a reply. It copies from the request what RFC 2131 table 3 says, the relay's information (RFC 3046),
// the client identifier (RFC 6842) and the machine identifier, which PXE ROMs compare.
func newReply(r Request, v View, t dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	q := r.packet
	p := &dhcpv4.DHCPv4{
		OpCode:        dhcpv4.OpcodeBootReply,
		HWType:        q.HWType,
		TransactionID: q.TransactionID,
		Flags:         q.Flags,
		ClientHWAddr:  q.ClientHWAddr,
		GatewayIPAddr: q.GatewayIPAddr,
		Options:       dhcpv4.Options{},
	}
	p.UpdateOption(dhcpv4.OptMessageType(t))
	p.UpdateOption(dhcpv4.OptServerIdentifier(ip(v.Server)))
	for _, code := range []dhcpv4.OptionCode{dhcpv4.OptionRelayAgentInformation, dhcpv4.OptionClientIdentifier,
		dhcpv4.OptionClientMachineIdentifier} {
		if b := q.Options.Get(code); b != nil {
			p.UpdateOption(dhcpv4.OptGeneric(code, b))
		}
	}
	return p
}

// leaseReply returns an OFFER or ACK of an address, with the boot file for a client that boots.
func leaseReply(r Request, v View, t dhcpv4.MessageType, a netip.Addr, seen *Seen) *dhcpv4.DHCPv4 {
	p := newReply(r, v, t)
	p.YourIPAddr = ip(a)
	if t == dhcpv4.MessageTypeAck {
		p.ClientIPAddr = r.packet.ClientIPAddr
	}
	d := v.Subnet.leaseTime(v.Known)
	p.UpdateOption(dhcpv4.OptIPAddressLeaseTime(d))
	p.UpdateOption(dhcpv4.OptRenewTimeValue(d / 2))
	p.UpdateOption(dhcpv4.OptRebindingTimeValue((d * 7 / 8).Truncate(time.Second)))
	if v.Lease.Host != "" {
		p.UpdateOption(dhcpv4.OptHostName(v.Lease.Host))
	}
	networkOptions(p, r, *v.Subnet)
	if r.looks() {
		p.UpdateOption(dhcpv4.OptClassIdentifier(v.Rank))
		return p
	}
	addBoot(p, r, v, seen)
	return p
}

// informReply returns the ACK for a client that already has an address: everything else that it needs.
func informReply(r Request, v View, seen *Seen) *dhcpv4.DHCPv4 {
	p := newReply(r, v, dhcpv4.MessageTypeAck)
	p.ClientIPAddr = r.packet.ClientIPAddr
	networkOptions(p, r, *v.Subnet)
	addBoot(p, r, v, seen)
	return p
}

func networkOptions(p *dhcpv4.DHCPv4, r Request, s Subnet) {
	p.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(s.Prefix.Bits(), 32)))
	if len(s.Routers) > 0 {
		p.UpdateOption(dhcpv4.OptRouter(ips(s.Routers)...))
	}
	if len(s.DNS) > 0 {
		p.UpdateOption(dhcpv4.OptDNS(ips(s.DNS)...))
	}
	wants := r.packet.IsOptionRequested
	if wants(dhcpv4.OptionBroadcastAddress) {
		p.UpdateOption(dhcpv4.OptBroadcastAddress(ip(lastAddr(s.Prefix))))
	}
	if s.Domain != "" && wants(dhcpv4.OptionDomainName) {
		p.UpdateOption(dhcpv4.OptDomainName(s.Domain))
	}
	if len(s.NTP) > 0 && wants(dhcpv4.OptionNTPServers) {
		p.UpdateOption(dhcpv4.OptNTPServers(ips(s.NTP)...))
	}
	if len(s.Search) > 0 && wants(dhcpv4.OptionDNSDomainSearchList) {
		p.UpdateOption(dhcpv4.OptDomainSearch(&rfc1035label.Labels{Labels: s.Search}))
	}
}

// addBoot puts the boot file into a reply, and reports whether it did. If there is no loader for the client's firmware,
// seen gets the reason, and the client still gets its address.
func addBoot(p *dhcpv4.DHCPv4, r Request, v View, seen *Seen) bool {
	file, err := netboot.BootFile(r.Client, v.Loaders, v.Base)
	if err != nil {
		seen.Reason = err.Error()
		return false
	}
	if file == "" {
		return false
	}
	p.UpdateOption(dhcpv4.OptClassIdentifier(vendorClass(r.Client)))
	p.ServerIPAddr = ip(v.Server)
	// The field holds 127 characters; the option is for what is longer, and for firmware that reads only it.
	if len(file) < 128 {
		p.BootFileName = file
	}
	p.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionBootfileName, cString(file)))
	if r.Client.Kind == netboot.HTTPBoot {
		return true
	}
	p.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionTFTPServerName, cString(v.Server.String())))
	if r.Client.Kind == netboot.PXE {
		p.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, useBootFile))
	}
	return true
}

// cString ends a text with a zero byte. Old ROMs ignore the length of these options, and would request a name that ends
// with bytes of the next option.
func cString(s string) []byte { return append([]byte(s), 0) }

// vendorClass returns the class that the client's firmware requires in a reply: HTTPClient for UEFI HTTP Boot (UEFI
// 2.10 section 24.7.3), PXEClient for PXE.
func vendorClass(c netboot.Client) string {
	if c.Kind == netboot.HTTPBoot {
		return "HTTPClient"
	}
	return "PXEClient"
}

func ip(a netip.Addr) net.IP {
	if !a.Is4() {
		return net.IPv4zero.To4()
	}
	return a.AsSlice()
}

func ips(as []netip.Addr) []net.IP {
	out := make([]net.IP, 0, len(as))
	for _, a := range as {
		out = append(out, ip(a))
	}
	return out
}
