package hostcheck

import (
	"encoding/binary"
	"net/netip"
)

// IP protocol numbers.
const (
	protoICMP = 1
	protoTCP  = 6
	protoUDP  = 17
)

// segment returns an IPv4 packet with a UDP datagram or a TCP SYN.
func segment(proto byte, src, dst netip.AddrPort, payload []byte) []byte {
	var l4 []byte
	l4 = binary.BigEndian.AppendUint16(l4, src.Port())
	l4 = binary.BigEndian.AppendUint16(l4, dst.Port())
	at := 6 // offset of the checksum
	if proto == protoTCP {
		l4 = append(l4, 0, 0, 0, 1, 0, 0, 0, 0, 5<<4, 2, 0xff, 0xff, 0, 0, 0, 0) // SYN
		at = 16
	} else {
		l4 = binary.BigEndian.AppendUint16(l4, uint16(8+len(payload)))
		l4 = append(l4, 0, 0)
	}
	l4 = append(l4, payload...)
	s, d := src.Addr().As4(), dst.Addr().As4()
	pseudo := append(append(s[:], d[:]...), 0, proto, byte(len(l4)>>8), byte(len(l4)))
	binary.BigEndian.PutUint16(l4[at:], checksum(append(pseudo, l4...)))
	ip := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, proto, 0, 0}
	binary.BigEndian.PutUint16(ip[2:], uint16(20+len(l4)))
	ip = append(append(ip, src.Addr().AsSlice()...), dst.Addr().AsSlice()...)
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	return append(ip, l4...)
}

func checksum(b []byte) uint16 {
	var s uint32
	for i := 0; i+1 < len(b); i += 2 {
		s += uint32(b[i])<<8 | uint32(b[i+1])
	}
	if len(b)%2 == 1 {
		s += uint32(b[len(b)-1]) << 8
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return ^uint16(s)
}

// answer is the answer to a probe.
type answer struct {
	client uint16 // port of the probe
	server uint16 // source port of a UDP answer
	open   bool   // the probe was accepted; false: refused
	data   []byte // payload of a UDP answer
}

// answered returns the answer in a frame that leaves the interface; the result is false if the frame answers no probe.
func answered(frame []byte, client netip.Addr) (answer, bool) {
	if len(frame) < 14+28 || frame[12] != 8 || frame[13] != 0 {
		return answer{}, false
	}
	ip := frame[14:]
	n := int(ip[0]&15) * 4
	if len(ip) < n+8 {
		return answer{}, false
	}
	dst, l4 := netip.AddrFrom4([4]byte(ip[16:20])), ip[n:]
	broadcast := dst == netip.AddrFrom4([4]byte{255, 255, 255, 255})
	port := binary.BigEndian.Uint16(l4[2:])
	switch {
	case ip[9] == protoUDP && (dst == client || broadcast):
		return answer{port, binary.BigEndian.Uint16(l4), true, l4[8:]}, true
	case dst != client:
	case ip[9] == protoTCP && len(l4) >= 14:
		return answer{client: port, open: l4[13]&0x12 == 0x12}, true // SYN and ACK: open; otherwise a reset
	case ip[9] == protoICMP && l4[0] == 3 && len(l4) >= 8+20+4: // unreachable: the packet that it refers to follows
		inner := l4[8:]
		if m := int(inner[0]&15) * 4; len(inner) >= m+4 {
			return answer{client: binary.BigEndian.Uint16(inner[m:])}, true
		}
	}
	return answer{}, false
}
