package dhcp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/ipv4"
)

// link is one interface that is served.
type link struct {
	ifi  *net.Interface
	dhcp *net.UDPConn // port 67
	boot *net.UDPConn // port 4011
	raw  *packetSocket
	arp  *arpProber
	look *discoverer

	router *packetSocket // nil: router solicitations are not answered

	mu     sync.Mutex
	addrs  []netip.Prefix
	read   time.Time // when addrs was read
	others standing
}

// addrsFor is how long the addresses of an interface are cached.
const addrsFor = 10 * time.Second

func (s *Server) openLink(ctx context.Context, name string) (l *link, err error) {
	l = &link{others: standing{mode: s.Config.Mode, pace: s.pace()}}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.ifi, err = net.InterfaceByName(name); err != nil {
		return l, fmt.Errorf("interface %s: %w", name, err)
	}
	if len(l.ifi.HardwareAddr) != 6 {
		return l, fmt.Errorf("interface %s is not an Ethernet", name)
	}
	if !l.first().IsValid() {
		return l, fmt.Errorf(
			"interface %s has no IPv4 address: give it one (ip address add 10.0.0.1/24 dev %s)",
			name,
			name,
		)
	}
	if l.dhcp, err = listenUDP(ctx, name, ServerPort); err != nil {
		return l, err
	}
	if l.boot, err = listenUDP(ctx, name, BootPort); err != nil {
		return l, err
	}
	if l.raw, err = openPacket(l.ifi, ethIPv4, toPort(0)); err != nil { // for sending only: no datagram goes to port 0
		return l, err
	}
	sock, err := openPacket(l.ifi, ethARP, nil)
	if err != nil {
		return l, err
	}
	l.arp = &arpProber{sock: sock}
	if l.look, err = newDiscoverer(l.ifi); err != nil {
		return l, err
	}
	l.router, err = openRouter(l.ifi)
	return l, err
}

func (l *link) close() {
	for _, c := range []*net.UDPConn{l.dhcp, l.boot} {
		if c != nil {
			_ = c.Close()
		}
	}
	if l.raw != nil {
		l.raw.close()
	}
	if l.arp != nil {
		l.arp.sock.close()
	}
	if l.look != nil {
		l.look.sock.close()
	}
	if l.router != nil {
		l.router.close()
	}
}

// prefixes returns the interface's addresses. They are read again after addrsFor.
func (l *link) prefixes() []netip.Prefix {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.read) > addrsFor {
		if as, err := ipv4Addrs(l.ifi); err == nil {
			l.addrs, l.read = as, time.Now()
		}
	}
	return l.addrs
}

// first returns the interface's first address, zero if it has none.
func (l *link) first() netip.Addr {
	if ps := l.prefixes(); len(ps) > 0 {
		return ps[0].Addr()
	}
	return netip.Addr{}
}

func (l *link) has(a netip.Addr) bool {
	return slices.ContainsFunc(l.prefixes(), func(p netip.Prefix) bool { return p.Addr() == a })
}

// within returns the interface's address in a network, else its first one.
func (l *link) within(p netip.Prefix) netip.Addr {
	for _, own := range l.prefixes() {
		if p.Contains(own.Addr()) {
			return own.Addr()
		}
	}
	return l.first()
}

// answered records another server's answer, and returns what changed by it.
func (l *link) answered(f Found, id uint32, now time.Time) change {
	own := l.first()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.others.answer(f, id, own, now)
}

// overheard records that a client chose another server.
func (l *link) overheard(f Found, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.others.overheard(f, now)
}

// standing returns what is known of other servers, for the link that replaces this one.
func (l *link) standing() standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.others
}

func (l *link) state(configured Mode) State {
	a := l.first()
	l.mu.Lock()
	defer l.mu.Unlock()
	st := State{
		Interface: l.ifi.Name, Mode: configured, StoppedFor: l.others.stopped, Others: l.others.found(), Address: a,
	}
	if st.StoppedFor.IsValid() {
		st.Mode = Proxy
	}
	return st
}

// send sends a reply to the address that RFC 2131 section 4.1 prescribes.
func (l *link) send(out Reply, r Request, v View, from netip.AddrPort) error {
	b := out.Packet.ToBytes()
	client := netip.AddrPortFrom(r.Address, clientPort)
	everybody := netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), clientPort)
	switch {
	case v.BootPort && from.Addr().IsValid() && !from.Addr().IsUnspecified():
		return l.sendUDP(l.boot, v.Server, from, b)
	case r.Relay.IsValid():
		return l.sendUDP(l.dhcp, v.Server, netip.AddrPortFrom(r.Relay, ServerPort), b)
	case out.Seen.Reply == "NAK":
		return l.sendUDP(l.dhcp, v.Server, everybody, b)
	case r.Address.IsValid():
		return l.sendUDP(l.dhcp, v.Server, client, b)
	case r.packet.IsBroadcast() || !out.Seen.Addr.IsValid():
		return l.sendUDP(l.dhcp, v.Server, everybody, b)
	}
	src := netip.AddrPortFrom(v.Server, ServerPort)
	return l.raw.send(r.MAC, datagram(src, netip.AddrPortFrom(out.Seen.Addr, clientPort), b))
}

// sendUDP sends from the address that the reply names as its server, also where the interface has several.
func (l *link) sendUDP(c *net.UDPConn, src netip.Addr, to netip.AddrPort, b []byte) error {
	cm := ipv4.ControlMessage{Src: ip(src), IfIndex: l.ifi.Index}
	_, _, err := c.WriteMsgUDPAddrPort(b, cm.Marshal(), to)
	return err
}
