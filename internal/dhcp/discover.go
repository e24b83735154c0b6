package dhcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"pando/internal/fleet"
)

// DiscoverClass is the vendor class of our own questions for other servers. A Pando that hears one answers and keeps no
// address for it.
const DiscoverClass = "pando-look"

// discoverInterval is the time between two DISCOVERs of one DiscoverServers.
const discoverInterval = time.Second

// ethIPv4 and ethARP are Ethernet types.
const (
	ethIPv4 = 0x0800
	ethARP  = 0x0806
)

// DiscoverServers asks the segment of an interface for DHCP and PXE servers, for as long as wait, and returns all that
// answered, sorted. A server on this machine does not hear the question. It needs no address on the interface.
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
	found := map[Found]bool{}
	end := time.Now().Add(wait)
	for next := time.Now(); ; next = next.Add(discoverInterval) {
		if !next.Before(end) {
			break
		}
		if err := l.ask(); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("look for DHCP servers on %s: %w", ifname, err)
		}
		until := next.Add(discoverInterval)
		if end.Before(until) {
			until = end
		}
		if err := l.collect(until, func(f Found) { found[f] = true }); err != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
	}
	return distinct(found), nil
}

// distinct has one entry for each server; one that was seen offering wins over one that was only seen.
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

// discoverer sends questions and reads other servers' answers, below the kernel's own ports so that a DHCP client
// that runs on this machine is not in the way.
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

// lookPacket is our question. The broadcast flag makes answers visible that would go to an address that nobody has.
func lookPacket(own fleet.MAC) (*dhcpv4.DHCPv4, error) {
	return dhcpv4.NewDiscovery(
		own[:],
		dhcpv4.WithBroadcast(true),
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier(DiscoverClass)),
	)
}

// ask sends a DISCOVER.
func (l *discoverer) ask() error {
	own, err := l.sock.mac()
	if err != nil {
		return err
	}
	p, err := lookPacket(own)
	if err != nil {
		return err
	}
	any4 := netip.AddrPortFrom(netip.IPv4Unspecified(), clientPort)
	all := netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), serverPort)
	err = l.sock.send(broadcastMAC, datagram(any4, all, p.ToBytes()))
	if errors.Is(err, syscall.ENETDOWN) {
		return fmt.Errorf("%w (ip link set %s up)", err, l.ifi.Name)
	}
	return err
}

// collect reads answers until a time, or until the socket is closed (os.ErrClosed).
func (l *discoverer) collect(until time.Time, tell func(Found)) error {
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
		case err != nil: // the interface is down; nobody can be heard
			time.Sleep(afterError)
			continue
		}
		if b, ok := payload(l.buf[:n], clientPort); ok {
			if f, ok := otherServer(b); ok {
				f.Interface = l.ifi.Name
				tell(f)
			}
		}
	}
}

// otherServer reads who sent an OFFER or ACK.
func otherServer(b []byte) (Found, bool) {
	p, err := dhcpv4.FromBytes(b)
	if err != nil || p.OpCode != dhcpv4.OpcodeBootReply {
		return Found{}, false
	}
	f := Found{Server: addr(p.Options.Get(dhcpv4.OptionServerIdentifier)), How: "offer"}
	if t := p.MessageType(); t != dhcpv4.MessageTypeOffer && t != dhcpv4.MessageTypeAck || !f.Server.IsValid() {
		return Found{}, false
	}
	f.Offers = addr(p.YourIPAddr)
	f.Proxy = !f.Offers.IsValid() && !addr(p.ClientIPAddr).IsValid() && vendorIsPXE(p)
	return f, f.Offers.IsValid() || f.Proxy
}

func vendorIsPXE(p *dhcpv4.DHCPv4) bool {
	c := p.ClassIdentifier()
	return len(c) >= 9 && c[:9] == "PXEClient" || len(c) >= 10 && c[:10] == "HTTPClient"
}

// looks reports whether a packet is a DISCOVER of DiscoverServers, ours or another Pando's. Who asks it wants no
// address.
func (r Request) looks() bool {
	return r.Type == dhcpv4.MessageTypeDiscover && r.packet.ClassIdentifier() == DiscoverClass
}

// sample is the address that a DISCOVER of DiscoverServers is answered with: a likely one, neither probed nor reserved.
func (s Subnet) sample(r Request, mine fleet.Lease) netip.Addr {
	if s.usable(mine.Addr) {
		return mine.Addr
	}
	for a := range s.candidates(r.MAC) {
		return a
	}
	return netip.Addr{}
}

// chosen reads from a client's broadcast that it took another server's offer.
func chosen(r Request, own func(netip.Addr) bool) (Found, bool) {
	if r.Type != dhcpv4.MessageTypeRequest || !r.Server.IsValid() || own(r.Server) || r.Relay.IsValid() ||
		r.MAC == (fleet.MAC{}) {
		return Found{}, false
	}
	return Found{Server: r.Server, Offers: r.Requested, How: "request"}, true
}
