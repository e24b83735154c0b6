package dhcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"pando/internal/fleet"
	"pando/internal/sockopt"
)

// receiveBuffer holds about a thousand requests.
const receiveBuffer = 2 << 20

// listenUDP opens a port on one interface. Broadcasts to it arrive whatever address they have.
func listenUDP(ctx context.Context, ifname string, port int) (*net.UDPConn, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		cerr := c.Control(func(fd uintptr) {
			err = errors.Join(
				unix.SetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, ifname),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1))
			// After a power cut hundreds of machines send requests in the same second. Without the privilege the buffer
			// has the system's default size.
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer)
		})
		return errors.Join(err, cerr)
	}}
	pc, err := lc.ListenPacket(ctx, "udp4", fmt.Sprintf(":%d", port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf(
			"port %d on %s is taken: another DHCP or PXE server (dnsmasq, isc-dhcp-server?) runs on this machine",
			port,
			ifname,
		)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on port %d of %s: %w", port, ifname, err)
	}
	sockopt.Set(pc.(*net.UDPConn), sockopt.Message) // DHCP answers go before the data that is sent to booting nodes
	return pc.(*net.UDPConn), nil
}

// packetSocket is an AF_PACKET socket on one interface for one Ethernet type. It reads and writes what
// follows the Ethernet header.
type packetSocket struct {
	f     *os.File
	raw   syscall.RawConn
	index int
	proto uint16
	done  atomic.Bool // closed; the raw connection's own error after that is not os.ErrClosed
}

// openPacket opens a packet socket. The filter, if any, is in place before the first packet can arrive.
func openPacket(ifi *net.Interface, proto uint16, filter []bpf.Instruction) (*packetSocket, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w (root or CAP_NET_RAW is needed)", err)
	}
	if err := attach(fd, filter); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(proto), Ifindex: ifi.Index}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind a packet socket to %s: %w", ifi.Name, err)
	}
	s := &packetSocket{f: os.NewFile(uintptr(fd), "packet:"+ifi.Name), index: ifi.Index, proto: proto}
	sockopt.Set(s.f, sockopt.Message)
	if s.raw, err = s.f.SyscallConn(); err != nil {
		s.close()
		return nil, fmt.Errorf("packet socket on %s: %w", ifi.Name, err)
	}
	return s, nil
}

func attach(fd int, filter []bpf.Instruction) error {
	if len(filter) == 0 {
		return nil
	}
	code, err := bpf.Assemble(filter)
	if err != nil {
		return fmt.Errorf("assemble packet filter: %w", err)
	}
	prog := make([]unix.SockFilter, len(code))
	for i, c := range code {
		prog[i] = unix.SockFilter{Code: c.Op, Jt: c.Jt, Jf: c.Jf, K: c.K}
	}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}); err != nil {
		return fmt.Errorf("attach packet filter: %w", err)
	}
	return nil
}

// toPort is a filter that passes UDP datagrams of IPv4 to one port. The packet begins with its IP header.
func toPort(port uint32) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 9, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 17, SkipTrue: 5},
		bpf.LoadAbsolute{Off: 6, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x1fff, SkipTrue: 3},
		bpf.LoadMemShift{Off: 0},
		bpf.LoadIndirect{Off: 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: port, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
		bpf.RetConstant{Val: 1 << 16},
	}
}

// mac returns the interface's own address as it is now. A bridge changes its address when a port is added, and answers
// to the old one do not arrive.
func (s *packetSocket) mac() (fleet.MAC, error) {
	ifi, err := net.InterfaceByIndex(s.index)
	if err != nil {
		return fleet.MAC{}, fmt.Errorf("read the address of an interface: %w", err)
	}
	if len(ifi.HardwareAddr) != 6 {
		return fleet.MAC{}, fmt.Errorf("interface %s is not an Ethernet", ifi.Name)
	}
	return fleet.MAC(ifi.HardwareAddr), nil
}

// join makes the interface receive a multicast address, for as long as the socket is open.
func (s *packetSocket) join(group fleet.MAC) error {
	mreq := unix.PacketMreq{Ifindex: int32(s.index), Type: unix.PACKET_MR_MULTICAST, Alen: 6}
	copy(mreq.Address[:], group[:])
	var err error
	if cerr := s.raw.Control(func(fd uintptr) {
		err = unix.SetsockoptPacketMreq(int(fd), unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &mreq)
	}); cerr != nil {
		return cerr
	}
	if err != nil {
		return fmt.Errorf("receive multicast %s: %w", group, err)
	}
	return nil
}

// send writes a packet to a station. It returns os.ErrClosed after close.
func (s *packetSocket) send(to fleet.MAC, b []byte) error {
	sa := &unix.SockaddrLinklayer{Protocol: htons(s.proto), Ifindex: s.index, Halen: 6}
	copy(sa.Addr[:], to[:])
	var err error
	if werr := s.raw.Write(func(fd uintptr) bool {
		err = unix.Sendto(int(fd), b, 0, sa)
		return !errors.Is(err, unix.EAGAIN)
	}); werr != nil {
		err = werr
	}
	if err != nil && s.done.Load() {
		return os.ErrClosed
	}
	return err
}

// recv reads a packet that came from another station. It returns os.ErrDeadlineExceeded after the deadline and
// os.ErrClosed after close.
func (s *packetSocket) recv(b []byte) (int, fleet.MAC, error) {
	for {
		var n int
		var from unix.Sockaddr
		var err error
		if rerr := s.raw.Read(func(fd uintptr) bool {
			n, from, err = unix.Recvfrom(int(fd), b, 0)
			return !errors.Is(err, unix.EAGAIN)
		}); rerr != nil {
			err = rerr
		}
		if s.done.Load() {
			return 0, fleet.MAC{}, os.ErrClosed
		}
		if err != nil {
			return 0, fleet.MAC{}, err
		}
		sa, ok := from.(*unix.SockaddrLinklayer)
		if !ok || sa.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		return n, fleet.MAC(sa.Addr[:6]), nil
	}
}

func (s *packetSocket) deadline(t time.Time) error { return s.f.SetReadDeadline(t) }

func (s *packetSocket) close() {
	s.done.Store(true)
	_ = s.f.Close()
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// broadcastMAC is the Ethernet address of all stations.
var broadcastMAC = fleet.MAC{255, 255, 255, 255, 255, 255}

// ipv4Addrs returns an interface's IPv4 addresses with their prefixes.
func ipv4Addrs(ifi *net.Interface) ([]netip.Prefix, error) {
	as, err := ifi.Addrs()
	if err != nil {
		return nil, fmt.Errorf("read addresses of %s: %w", ifi.Name, err)
	}
	var out []netip.Prefix
	for _, a := range as {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			bits, _ := n.Mask.Size()
			out = append(out, netip.PrefixFrom(netip.AddrFrom4([4]byte(n.IP.To4())), bits))
		}
	}
	return out, nil
}
