package dhcp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"pando/internal/fleet"
	"pando/internal/netboot"
)

// optIPXE is the option that iPXE encapsulates its own options in.
var optIPXE = dhcpv4.GenericOptionCode(175)

// optRelayInfo is the relay agent information (RFC 3046).
const optRelayInfo = dhcpv4.OptionRelayAgentInformation

// The message types that have names here.
const (
	dhcpDiscover = dhcpv4.MessageTypeDiscover
	dhcpRequest  = dhcpv4.MessageTypeRequest
)

// Request is a client's packet, decoded and checked.
type Request struct {
	MAC       fleet.MAC
	Type      dhcpv4.MessageType
	Client    netboot.Client
	Requested netip.Addr // option 50; zero: none
	Address   netip.Addr // ciaddr: the client uses it and answers ARP for it; zero: none
	Server    netip.Addr // option 54; zero: none
	Relay     netip.Addr // giaddr; zero: not relayed
	HostName  string

	packet *dhcpv4.DHCPv4
}

// errNotForUs marks well-formed packets that no server has to answer.
var errNotForUs = errors.New("not a request")

// Parse decodes a packet that arrived at a server's port. An error means: drop it.
func Parse(b []byte) (Request, error) {
	// Some ROMs leave out the end mark of the options; one more does no harm.
	p, err := dhcpv4.FromBytes(append(b[:len(b):len(b)], dhcpv4.OptionEnd.Code()))
	if err != nil {
		return Request{}, fmt.Errorf("decode DHCP packet of %d bytes: %w", len(b), err)
	}
	switch {
	case p.OpCode != dhcpv4.OpcodeBootRequest:
		return Request{}, errNotForUs
	case p.HWType != iana.HWTypeEthernet || len(p.ClientHWAddr) != 6:
		return Request{}, fmt.Errorf(
			"%w of an Ethernet client (hardware type %d, address of %d bytes)",
			errNotForUs,
			p.HWType,
			len(p.ClientHWAddr),
		)
	case p.ClientHWAddr[0]&1 != 0 || fleet.MAC(p.ClientHWAddr).IsZero():
		return Request{}, fmt.Errorf("%w: client address %s is not one of a station", errNotForUs, p.ClientHWAddr)
	}
	r := Request{
		MAC: fleet.MAC(p.ClientHWAddr), Type: p.MessageType(), packet: p,
		Requested: addr(p.Options.Get(dhcpv4.OptionRequestedIPAddress)),
		Server:    addr(p.Options.Get(dhcpv4.OptionServerIdentifier)),
		Address:   addr(p.ClientIPAddr), Relay: addr(p.GatewayIPAddr),
		HostName: printable(p.HostName(), 64),
	}
	switch r.Type {
	case dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeDecline,
		dhcpv4.MessageTypeRelease, dhcpv4.MessageTypeInform:
	default:
		return Request{}, fmt.Errorf("%w: message type %s", errNotForUs, r.Type)
	}
	f := netboot.Fields{
		VendorClass: p.ClassIdentifier(),
		UserClass:   p.Options.Get(dhcpv4.OptionUserClassInformation),
		MachineID:   p.Options.Get(dhcpv4.OptionClientMachineIdentifier),
		IPXE:        p.Options.Get(optIPXE),
	}
	for _, a := range p.ClientArch() {
		f.Archs = append(f.Archs, uint16(a))
	}
	r.Client = netboot.Identify(f)
	return r, nil
}

// addr returns an address of four bytes. Anything else, and 0.0.0.0, is no address.
func addr(b []byte) netip.Addr {
	if len(b) == net.IPv6len {
		b = net.IP(b).To4()
	}
	if len(b) != 4 {
		return netip.Addr{}
	}
	a := netip.AddrFrom4([4]byte(b))
	if a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

// printable shortens a text that a client sent, and removes characters that are not printable.
func printable(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), n)]
}

// messageNames are the names that Seen uses.
var messageNames = map[dhcpv4.MessageType]string{
	dhcpv4.MessageTypeDiscover: "DISCOVER", dhcpv4.MessageTypeOffer: "OFFER", dhcpv4.MessageTypeRequest: "REQUEST",
	dhcpv4.MessageTypeDecline: "DECLINE", dhcpv4.MessageTypeAck: "ACK", dhcpv4.MessageTypeNak: "NAK",
	dhcpv4.MessageTypeRelease: "RELEASE", dhcpv4.MessageTypeInform: "INFORM",
}

// seen starts the record of a request.
func (r Request) seen() Seen {
	req := r.Requested
	if !req.IsValid() {
		req = r.Address
	}
	return Seen{MAC: r.MAC, Message: messageNames[r.Type], Client: r.Client, Requested: req, Server: r.Server,
		Relay: r.Relay, HostName: r.HostName}
}
