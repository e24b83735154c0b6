package dhcp

import (
	"encoding/binary"
	"net/netip"
)

// Ports of DHCP and of PXE's boot service.
const (
	ServerPort = 67
	clientPort = 68
	BootPort   = 4011
)

// datagram returns an IPv4 packet with a UDP datagram, for clients that cannot be reached through the kernel: they have
// no address yet and answer no ARP.
func datagram(src, dst netip.AddrPort, payload []byte) []byte {
	const ipLen, udpLen = 20, 8
	b := make([]byte, ipLen+udpLen, ipLen+udpLen+len(payload))
	s, d := src.Addr().As4(), dst.Addr().As4()
	b[0] = 0x45
	binary.BigEndian.PutUint16(b[2:], uint16(ipLen+udpLen+len(payload)))
	b[8], b[9] = 64, 17
	copy(b[12:], s[:])
	copy(b[16:], d[:])
	binary.BigEndian.PutUint16(b[10:], ^fold(sum(b[:ipLen])))
	u := b[ipLen:]
	binary.BigEndian.PutUint16(u, src.Port())
	binary.BigEndian.PutUint16(u[2:], dst.Port())
	binary.BigEndian.PutUint16(u[4:], uint16(udpLen+len(payload)))
	b = append(b, payload...)
	// RFC 768: the checksum is over a pseudo header of addresses, protocol and length, then the datagram; 0 is sent as
	// all ones.
	c := ^fold(sum(b[12:20]) + 17 + uint32(udpLen+len(payload)) + sum(b[ipLen:]))
	if c == 0 {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(b[ipLen+6:], c)
	return b
}

// sum adds up 16-bit words; DHCP packets are far too short for it to overflow.
func sum(b []byte) uint32 {
	var s uint32
	for i := 0; i+1 < len(b); i += 2 {
		s += uint32(b[i])<<8 | uint32(b[i+1])
	}
	if len(b)%2 == 1 {
		s += uint32(b[len(b)-1]) << 8
	}
	return s
}

func fold(s uint32) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// payload returns the UDP payload of an IPv4 packet that goes to port, and false for anything else.
func payload(b []byte, port uint16) ([]byte, bool) {
	if len(b) < 20 || b[0]>>4 != 4 || b[9] != 17 {
		return nil, false
	}
	n, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if n < 20 || total > len(b) || total < n+8 || binary.BigEndian.Uint16(b[6:])&0x3fff != 0 { // a fragment
		return nil, false
	}
	u := b[n:total]
	if binary.BigEndian.Uint16(u[2:]) != port {
		return nil, false
	}
	size := int(binary.BigEndian.Uint16(u[4:]))
	if size < 8 || size > len(u) {
		return nil, false
	}
	return u[8:size], true
}

// arpRequest returns an ARP request for an address, with sender address zero (RFC 5227 section 2.1.1).
func arpRequest(from [6]byte, a netip.Addr) []byte {
	b := []byte{0, 1, 8, 0, 6, 4, 0, 1}
	b = append(b, from[:]...)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	t := a.As4()
	return append(b, t[:]...)
}

// arpSender returns the sender of an ARP reply, or of a request that has a sender address, and that address.
func arpSender(b []byte) (mac [6]byte, a netip.Addr, ok bool) {
	if len(b) < 28 || string(b[:6]) != "\x00\x01\x08\x00\x06\x04" {
		return mac, a, false
	}
	a = netip.AddrFrom4([4]byte(b[14:18]))
	return [6]byte(b[8:14]), a, !a.IsUnspecified()
}
