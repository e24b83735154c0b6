package dhcp

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"pando/internal/fleet"
)

// DiscoverClass marks the packets by which a Pando looks for other servers: it is the vendor class of the plain
// DISCOVER, and the user class of the one that looks like firmware, which proxyDHCP servers answer too. A Pando that
// receives such a packet answers it and stores nothing about its sender.
const DiscoverClass = "pando-look"

// Vendor classes by which a Pando that gives addresses answers a packet with DiscoverClass.
const (
	pandoStarting = "pando-starting" // it has started, and has not finished looking for other servers
	pandoSettled  = "pando-settled"
)

// How a server was seen.
const (
	howOffer   = "offer"   // it answered a DISCOVER of this server
	howRequest = "request" // a client was seen choosing it
)

// discoverInterval is the time between two DISCOVERs of one DiscoverServers.
const discoverInterval = time.Second

// ethIPv4 and ethARP are Ethernet types.
const (
	ethIPv4 = 0x0800
	ethARP  = 0x0806
)

// DiscoverServers looks for DHCP and PXE servers on the segment of an interface, for as long as wait, and returns all
// that answered, sorted. Servers on this machine do not receive its packets. The interface needs no address.
func DiscoverServers(ctx context.Context, ifname string, wait time.Duration) ([]Found, error) {
	ifi, err := net.InterfaceByName(ifname)
	if err != nil {
		return nil, fmt.Errorf("look for DHCP servers on %s: %w", ifname, err)
	}
	l, err := newDiscoverer(ifi)
	if err != nil {
		return nil, fmt.Errorf("look for DHCP servers on %s: %w", ifname, err)
	}
	defer l.sock.close()
	defer context.AfterFunc(ctx, l.sock.close)()
	found, ids := map[Found]bool{}, map[uint32]bool{}
	end := time.Now().Add(wait)
	for next := time.Now(); ; next = next.Add(discoverInterval) {
		if !next.Before(end) {
			break
		}
		q, err := l.ask(time.Now())
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("look for DHCP servers on %s: %w", ifname, err)
		}
		ids[q.ids[0]], ids[q.ids[1]] = true, true
		until := next.Add(discoverInterval)
		if end.Before(until) {
			until = end
		}
		if err := l.collect(until, func(f Found, id uint32) {
			if ids[id] {
				found[f] = true
			}
		}); err != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
	}
	return distinct(found), nil
}

// distinct returns one entry for each server. An entry with an offer is preferred to one that was only seen.
func distinct(set map[Found]bool) []Found {
	out := make([]Found, 0, len(set))
	for f := range set {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Found) int {
		return cmp.Or(a.Server.Compare(b.Server), -a.Offers.Compare(b.Offers))
	})
	return slices.CompactFunc(out, func(a, b Found) bool { return a.Server == b.Server && a.Proxy == b.Proxy })
}

// discoverer sends DISCOVERs and reads other servers' answers. It uses packet sockets, so it does not collide with a
// DHCP client that runs on this machine.
type discoverer struct {
	ifi  *net.Interface
	sock *packetSocket
	buf  []byte
}

func newDiscoverer(ifi *net.Interface) (*discoverer, error) {
	sock, err := openPacket(ifi, ethIPv4, toPort(clientPort))
	if err != nil {
		return nil, err
	}
	return &discoverer{ifi: ifi, sock: sock, buf: make([]byte, 2048)}, nil
}

// lookPackets are the two DISCOVERs of one question: a plain one, and one that looks like BIOS firmware, which
// proxyDHCP servers answer. Their broadcast flag is set: an answer to the offered address would reach nobody.
func lookPackets(own fleet.MAC) (packets [2]*dhcpv4.DHCPv4, err error) {
	all := []dhcpv4.Modifier{dhcpv4.WithBroadcast(true)}
	if packets[0], err = dhcpv4.NewDiscovery(
		own[:], append(all, dhcpv4.WithOption(dhcpv4.OptClassIdentifier(DiscoverClass)))...); err != nil {
		return packets, err
	}
	packets[1], err = dhcpv4.NewDiscovery(own[:], append(all,
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient:Arch:00000:UNDI:002001")),
		dhcpv4.WithOption(dhcpv4.OptClientArch(iana.INTEL_X86PC)),
		dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionClientNetworkInterfaceIdentifier, []byte{1, 2, 1})),
		dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionClientMachineIdentifier, make([]byte, 17))),
		dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionUserClassInformation, []byte(DiscoverClass))))...)
	return packets, err
}

// Question returns the DISCOVER that looks like firmware. It serves to check whether packets reach this machine's
// server.
func Question(from fleet.MAC) ([]byte, error) {
	packets, err := lookPackets(from)
	if err != nil {
		return nil, err
	}
	return packets[1].ToBytes(), nil
}

// ask sends the DISCOVERs of one question.
func (l *discoverer) ask(now time.Time) (question, error) {
	q := question{at: now}
	own, err := l.sock.mac()
	if err != nil {
		return q, err
	}
	packets, err := lookPackets(own)
	if err != nil {
		return q, err
	}
	for i, p := range packets {
		q.ids[i] = binary.BigEndian.Uint32(p.TransactionID[:])
		if err := l.send(p); err != nil {
			return q, err
		}
	}
	return q, nil
}

func (l *discoverer) send(p *dhcpv4.DHCPv4) error {
	any4 := netip.AddrPortFrom(netip.IPv4Unspecified(), clientPort)
	all := netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), ServerPort)
	err := l.sock.send(broadcastMAC, datagram(any4, all, p.ToBytes()))
	if errors.Is(err, syscall.ENETDOWN) {
		return fmt.Errorf("%w (ip link set %s up)", err, l.ifi.Name)
	}
	return err
}

// collect reads answers until a time, or until the socket is closed (os.ErrClosed), and passes each to tell.
func (l *discoverer) collect(until time.Time, tell func(Found, uint32)) error {
	if err := l.sock.deadline(until); err != nil {
		return err
	}
	for {
		n, _, err := l.sock.recv(l.buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case errors.Is(err, os.ErrClosed):
			return err
		case err != nil: // the interface is down, and no packet arrives
			time.Sleep(afterError)
			continue
		}
		if b, ok := payload(l.buf[:n], clientPort); ok {
			if f, id, ok := otherServer(b); ok {
				f.Interface = l.ifi.Name
				tell(f, id)
			}
		}
	}
}

// otherServer returns the server that sent an OFFER or ACK, and the transaction id.
func otherServer(b []byte) (f Found, id uint32, ok bool) {
	p, err := dhcpv4.FromBytes(b)
	if err != nil || p.OpCode != dhcpv4.OpcodeBootReply {
		return f, 0, false
	}
	f = Found{Server: addr(p.Options.Get(dhcpv4.OptionServerIdentifier)), How: howOffer}
	if t := p.MessageType(); t != dhcpv4.MessageTypeOffer && t != dhcpv4.MessageTypeAck || !f.Server.IsValid() {
		return f, 0, false
	}
	f.Offers = addr(p.YourIPAddr)
	f.Proxy = !f.Offers.IsValid() && !addr(p.ClientIPAddr).IsValid() && vendorIsPXE(p)
	if c := p.ClassIdentifier(); c == pandoStarting || c == pandoSettled {
		f.Pando = c
	}
	return f, binary.BigEndian.Uint32(p.TransactionID[:]), f.Offers.IsValid() || f.Proxy
}

func vendorIsPXE(p *dhcpv4.DHCPv4) bool {
	c := p.ClassIdentifier()
	return len(c) >= 9 && c[:9] == "PXEClient" || len(c) >= 10 && c[:10] == "HTTPClient"
}

// looks reports whether a packet has DiscoverClass: a Pando sent it to find servers, and wants no address.
func (r Request) looks() bool {
	return r.Type == dhcpv4.MessageTypeDiscover && (r.packet.ClassIdentifier() == DiscoverClass ||
		string(r.packet.Options.Get(dhcpv4.OptionUserClassInformation)) == DiscoverClass)
}

// sample returns the address in the answer to another Pando's DISCOVER: a likely one, neither probed nor reserved.
func (s Subnet) sample(mac fleet.MAC) netip.Addr {
	for a := range s.candidates(mac) {
		return a
	}
	return s.Prefix.Masked().Addr().Next()
}
