package dhcp

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/net/bpf"

	"pando/internal/fleet"
	"pando/internal/netboot"
)

// iPXE boots only when IPv4 and IPv6 are both configured, and waits 16 seconds for an IPv6 router where there is none.
// So machines in iPXE, and no others, get an answer to their router solicitations: no default router, no prefix,
// nothing to configure (RFC 4861 section 4.2, router lifetime 0).

// ethIPv6 is the Ethernet type of IPv6, icmpv6 its protocol number.
const (
	ethIPv6 = 0x86dd
	icmpv6  = 58
)

// ICMPv6 types (RFC 4861 section 4).
const (
	routerSolicitation  = 133
	routerAdvertisement = 134
)

// inIPXEFor is how long after a DHCP packet of iPXE its machine counts as being in iPXE.
const inIPXEFor = 30 * time.Second

// allRouters is the Ethernet address of ff02::2.
var allRouters = fleet.MAC{0x33, 0x33, 0, 0, 0, 2}

// maxLoading bounds the remembered machines, against made-up addresses.
const maxLoading = 1 << 16

// loading remembers which machines are in iPXE.
type loading struct {
	mu    sync.Mutex
	until map[fleet.MAC]time.Time
}

// saw records from a DHCP packet whether its machine is in iPXE.
func (l *loading) saw(mac fleet.MAC, kind netboot.Kind, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until == nil {
		l.until = map[fleet.MAC]time.Time{}
	}
	if kind != netboot.IPXE {
		delete(l.until, mac)
		return
	}
	if len(l.until) < maxLoading {
		l.until[mac] = now.Add(inIPXEFor)
	}
}

// has reports whether a machine is in iPXE.
func (l *loading) has(mac fleet.MAC, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Before(l.until[mac])
}

// expire forgets machines whose last packet of iPXE is older than inIPXEFor.
func (l *loading) expire(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for mac, t := range l.until {
		if !now.Before(t) {
			delete(l.until, mac)
		}
	}
}

// solicitations is a filter that passes router solicitations. The packet begins with its IPv6 header.
func solicitations() []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 6, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: icmpv6, SkipTrue: 3},
		bpf.LoadAbsolute{Off: 40, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: routerSolicitation, SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	}
}

// openRouter opens the socket that solicitations arrive at. It works where IPv6 is off in the server's kernel.
func openRouter(ifi *net.Interface) (*packetSocket, error) {
	s, err := openPacket(ifi, ethIPv6, solicitations())
	if err != nil {
		return nil, err
	}
	if err := s.join(allRouters); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// answerSolicitations runs until the link's socket is closed.
func (s *Server) answerSolicitations(ctx context.Context, l *link) {
	buf := make([]byte, 512)
	for ctx.Err() == nil {
		n, from, err := l.router.recv(buf)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(afterError)
			continue
		}
		src, ok := solicitation(buf[:n])
		if !ok || !s.loading.has(from, s.now()) {
			continue
		}
		own, err := l.router.mac()
		if err == nil {
			err = l.router.send(from, advertisement(linkLocal(own), src))
		}
		if err != nil {
			s.log().Debug("dhcp: router solicitation not answered", "mac", from, "err", err)
		}
	}
}

// solicitation returns the sender of a router solicitation. It ignores one without a sender address (::): the machine
// sends another one that has it.
func solicitation(b []byte) (netip.Addr, bool) {
	if len(b) < 48 || b[0]>>4 != 6 || b[6] != icmpv6 || b[7] != 255 || b[40] != routerSolicitation {
		return netip.Addr{}, false
	}
	src := netip.AddrFrom16([16]byte(b[8:24]))
	return src, src.IsLinkLocalUnicast()
}

// advertisement returns an IPv6 packet that says that there is no router.
func advertisement(src, dst netip.Addr) []byte {
	const ipLen, icmpLen = 40, 16
	b := make([]byte, ipLen+icmpLen)
	s, d := src.As16(), dst.As16()
	b[0] = 0x60
	binary.BigEndian.PutUint16(b[4:], icmpLen)
	b[6], b[7] = icmpv6, 255
	copy(b[8:], s[:])
	copy(b[24:], d[:])
	b[ipLen] = routerAdvertisement // all other fields are 0: no hop limit, flags, lifetime, timers, options
	// RFC 8200 section 8.1: the checksum is over a pseudo header of addresses, length and next header, then the
	// message.
	c := ^fold(sum(b[8:40]) + icmpLen + icmpv6 + sum(b[ipLen:]))
	binary.BigEndian.PutUint16(b[ipLen+2:], c)
	return b
}

// linkLocal returns the link-local address that belongs to a MAC (RFC 4291 appendix A).
func linkLocal(m fleet.MAC) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 0, 0, 0, 0, 0, 0, m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
}
