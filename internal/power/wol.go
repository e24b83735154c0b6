package power

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"pando/internal/fleet"
)

// wolPort is discard(9), the usual port of magic packets. Network cards look at the content of a packet, not at its
// port.
const wolPort = 9

// wolTimes is how often each packet is sent: a packet may be lost, and there is no answer.
const wolTimes = 3

// MagicPacket returns the packet that wakes a network card: six bytes of ones, its MAC sixteen times, and its SecureOn
// password if it has one (AMD, Magic Packet Technology, 1995).
func MagicPacket(mac fleet.MAC, password []byte) []byte {
	p := bytes.Repeat([]byte{0xff}, 6)
	p = append(p, bytes.Repeat(mac[:], 16)...)
	return append(p, password...)
}

// Woken finds a magic packet at any position in b, and returns its MAC and password.
func Woken(b []byte) (mac fleet.MAC, password []byte, ok bool) {
	ones := bytes.Repeat([]byte{0xff}, 6)
	for at := 0; len(b)-at >= 102; at++ {
		next := bytes.Index(b[at:], ones)
		if next < 0 || len(b)-at-next < 102 {
			break
		}
		at += next
		body := b[at+6:]
		if bytes.Equal(body[:96], bytes.Repeat(body[:6], 16)) {
			return fleet.MAC(body[:6]), body[96:], true
		}
	}
	return mac, nil, false
}

func (s Switch) wake(ctx context.Context, r Request) (State, error) {
	switch {
	case r.Action == Status:
		return Unknown, nil
	case r.Action != On:
		return Unknown, ErrAgent
	case len(r.MACs) == 0:
		return Unknown, errors.New("no MAC address of it is known")
	}
	password, err := fleet.SecureOn(r.Password)
	if err != nil {
		return Unknown, err
	}
	links, err := s.wolLinks(r.To.Host)
	if err != nil {
		return Unknown, err
	}
	var sent int
	for _, link := range links {
		for _, mac := range r.MACs {
			for range wolTimes {
				e := send(ctx, link, MagicPacket(mac, password))
				if err = errors.Join(err, e); e == nil {
					sent++
				}
			}
		}
	}
	if sent > 0 { // sent on at least one link: a link that is down is no failure
		return Unknown, nil
	}
	return Unknown, err
}

// wolLinks returns the addresses that packets are sent to.
func (s Switch) wolLinks(host string) ([]netip.AddrPort, error) {
	if host == "" {
		links, err := s.Links()
		if err == nil && len(links) == 0 {
			err = errors.New("this server has no link with an IPv4 broadcast address")
		}
		return links, err
	}
	if p, err := netip.ParseAddrPort(host); err == nil {
		return []netip.AddrPort{p}, nil
	}
	a, err := netip.ParseAddr(host)
	return []netip.AddrPort{netip.AddrPortFrom(a, wolPort)}, err
}

func send(ctx context.Context, to netip.AddrPort, packet []byte) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp4", to.String()) // Go enables broadcasts on UDP sockets
	if err != nil {
		return fmt.Errorf("send to %s: %w", to, err)
	}
	_, err = c.Write(packet)
	return errors.Join(err, c.Close())
}

// Links returns the broadcast addresses of this machine's networks.
func Links() ([]netip.AddrPort, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	var out []netip.AddrPort
	for _, l := range all {
		if l.Flags&net.FlagUp == 0 || l.Flags&net.FlagBroadcast == 0 {
			continue
		}
		addrs, err := l.Addrs()
		if err != nil {
			continue // the interface was removed
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && p.Bits() < 31 {
				out = append(out, netip.AddrPortFrom(broadcast(p), wolPort))
			}
		}
	}
	return out, nil
}

func broadcast(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}
