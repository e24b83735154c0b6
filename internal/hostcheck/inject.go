package hostcheck

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// injector sends packets into the receive path of an interface as if they came over its cable. Only packets tell what
// nftables, iptables and its legacy tables together let in. A tap device redirects them, so that firewall rules see the
// interface's name. Answers are seen on their way out. The tap ends with the process.
type injector struct {
	ifi    *net.Interface
	server netip.Addr // this machine's address on the interface
	client netip.Addr // source of the packets: an unused address
	mac    net.HardwareAddr
	tap    *os.File
	out    int // packet socket on the interface
}

const tapName = "pando-probe"

// probeMAC is the MAC of the simulated client, a locally administered address.
var probeMAC = [6]byte{0x02, 'p', 'a', 'n', 'd', 'o'}

func newInjector(name string) (*injector, error) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	if len(ifi.HardwareAddr) != 6 {
		return nil, fmt.Errorf("%s is not an Ethernet", name)
	}
	prefix, err := FirstPrefix(name)
	if err != nil {
		return nil, err
	}
	in := &injector{ifi: ifi, server: prefix.Addr(), mac: probeMAC[:], out: -1}
	if err := in.open(); err != nil {
		in.close()
		return nil, err
	}
	if err := in.find(prefix); err != nil {
		in.close()
		return nil, err
	}
	return in, nil
}

// open makes the tap and opens the packet socket.
func (in *injector) open() (err error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open /dev/net/tun: %w", err)
	}
	in.tap = os.NewFile(uintptr(fd), tapName)
	req, err := unix.NewIfreq(tapName)
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return fmt.Errorf("make a tap device: %w", err)
	}
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+tapName+"/disable_ipv6", []byte("1"), 0) // it says nothing of its own
	link, err := netlink.LinkByName(tapName)
	if err != nil {
		return err
	}
	// The tap has the interface's own MAC, so that the kernel does not drop packets as meant for another machine.
	if err := errors.Join(netlink.LinkSetHardwareAddr(link, in.ifi.HardwareAddr), netlink.LinkSetUp(link)); err != nil {
		return fmt.Errorf("set up a tap device: %w", err)
	}
	index := link.Attrs().Index
	if err := netlink.QdiscAdd(&netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_INGRESS}}); err != nil {
		return fmt.Errorf("forward packets (kernel module sch_ingress): %w", err)
	}
	redirect := netlink.NewMirredAction(in.ifi.Index)
	redirect.MirredAction = netlink.TCA_INGRESS_REDIR
	if err := netlink.FilterAdd(&netlink.U32{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: netlink.MakeHandle(0xffff, 0), Priority: 1,
			Protocol: unix.ETH_P_ALL},
		Sel:     &netlink.TcU32Sel{Flags: netlink.TC_U32_TERMINAL, Nkeys: 1, Keys: []netlink.TcU32Key{{}}},
		Actions: []netlink.Action{redirect},
	}); err != nil {
		return fmt.Errorf("forward packets (kernel modules cls_u32, act_mirred): %w", err)
	}
	const kind = unix.SOCK_RAW | unix.SOCK_CLOEXEC
	if in.out, err = unix.Socket(unix.AF_PACKET, kind, int(swap(unix.ETH_P_ALL))); err != nil {
		return fmt.Errorf("open a packet socket: %w", err)
	}
	return unix.Bind(in.out, &unix.SockaddrLinklayer{Protocol: swap(unix.ETH_P_ALL), Ifindex: in.ifi.Index})
}

func (in *injector) close() {
	if in.out >= 0 {
		_ = unix.Close(in.out)
	}
	if in.tap != nil {
		_ = in.tap.Close()
	}
}

// has reports whether an address belongs to the interface.
func (in *injector) has(a netip.Addr) bool {
	return slices.ContainsFunc(ipv4Of(*in.ifi), func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && p.Addr() == a
	})
}

func swap(v uint16) uint16 { return v<<8 | v>>8 }

// find chooses an unused address of the network, and sends an ARP request from it. The answer shows that packets get
// in, and this machine then knows the address.
func (in *injector) find(prefix netip.Prefix) error {
	a := lastOf(prefix)
	for range 16 {
		if a = a.Prev(); !prefix.Contains(a) || a == prefix.Masked().Addr() {
			break
		}
		if a == in.server || in.used(a) {
			continue
		}
		in.client = a
		if err := in.inject(in.arp(1, a, in.server, net.HardwareAddr{0, 0, 0, 0, 0, 0}), 0x0806, true); err != nil {
			return err
		}
		seen := in.watch(time.Second, func(frame []byte, outgoing bool) bool {
			return outgoing && isARP(frame, 2) && string(frame[38:42]) == string(a.AsSlice())
		})
		if !seen {
			return errors.New("packets that are put into the interface are not answered")
		}
		return nil
	}
	return fmt.Errorf("no free address in %s to try from", prefix)
}

// used reports whether a machine answers an ARP request for an address.
func (in *injector) used(a netip.Addr) bool {
	frame := append(ethernet([6]byte{255, 255, 255, 255, 255, 255}, in.ifi.HardwareAddr, 0x0806),
		arpPacket(1, in.ifi.HardwareAddr, netip.IPv4Unspecified(), make(net.HardwareAddr, 6), a)...)
	_ = unix.Sendto(in.out, frame, 0, &unix.SockaddrLinklayer{Ifindex: in.ifi.Index, Protocol: swap(0x0806)})
	return in.watch(300*time.Millisecond, func(f []byte, outgoing bool) bool {
		return !outgoing && len(f) >= 42 && f[12] == 8 && f[13] == 6 && string(f[28:32]) == string(a.AsSlice())
	})
}

// inject sends a packet, without its Ethernet header, into the interface.
func (in *injector) inject(b []byte, proto uint16, broadcast bool) error {
	to := [6]byte(in.ifi.HardwareAddr)
	if broadcast {
		to = [6]byte{255, 255, 255, 255, 255, 255}
	}
	_, err := in.tap.Write(append(ethernet(to, in.mac, proto), b...))
	return err
}

func (in *injector) arp(op byte, from, to netip.Addr, mac net.HardwareAddr) []byte {
	return arpPacket(op, in.mac, from, mac, to)
}

// watch reads frames that the interface sends and receives until fits returns true. It returns false if that takes
// longer than limit.
func (in *injector) watch(limit time.Duration, fits func(frame []byte, outgoing bool) bool) bool {
	buf := make([]byte, 2048)
	for end := time.Now().Add(limit); ; {
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		tv := unix.NsecToTimeval(left.Nanoseconds())
		if tv.Sec == 0 && tv.Usec == 0 {
			return false
		}
		if unix.SetsockoptTimeval(in.out, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv) != nil {
			return false
		}
		n, from, err := unix.Recvfrom(in.out, buf, 0)
		if err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return false
		}
		sa, ok := from.(*unix.SockaddrLinklayer)
		if ok && n >= 14 && fits(buf[:n], sa.Pkttype == unix.PACKET_OUTGOING) {
			return true
		}
	}
}

func isARP(f []byte, op byte) bool {
	return len(f) >= 42 && f[12] == 8 && f[13] == 6 && f[20] == 0 && f[21] == op
}

func ethernet(to [6]byte, from net.HardwareAddr, proto uint16) []byte {
	b := append(append(make([]byte, 0, 128), to[:]...), from...)
	return binary.BigEndian.AppendUint16(b, proto)
}

func arpPacket(op byte, mac net.HardwareAddr, from netip.Addr, toMAC net.HardwareAddr, to netip.Addr) []byte {
	b := []byte{0, 1, 8, 0, 6, 4, 0, op}
	b = append(append(b, mac...), from.AsSlice()...)
	return append(append(b, toMAC...), to.AsSlice()...)
}

// lastOf returns the broadcast address of a network.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	n := binary.BigEndian.Uint32(b[:]) | (1<<(32-p.Bits()) - 1)
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n)))
}
