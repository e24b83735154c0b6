package admit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"

	"pando/internal/testkit"
)

// firstWithin bounds the time of DHCP and TFTP answers while K uses the link for two minutes.
const firstWithin = time.Second

// DHCP and TFTP come first: while six machines load K over the server's link for two minutes, another machine gets an
// offer, and the first block of a boot file, as soon as on an idle link. Without priorities these answers would wait in
// the link's queue.
func TestDHCPAndTFTPAnswerFirst(t *testing.T) {
	const loading = 6
	l := newLoaders(t, loading+1, 12<<20, 5*testkit.Mbit, 1250*testkit.Kbit)
	other := l.star.Nodes[loading]
	idle := l.first(other, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var y tally
	ended := l.begin(ctx, loading, &y)
	busy := l.first(other, func() {
		if n := y.kernels.Load(); n > 0 {
			t.Errorf("%d machines had their kernel before another one had its answer", n)
		}
	})
	before := y.bytes.Load()
	l.queue("pfifo")
	plain := l.first(other, nil)
	t.Logf(
		"an answer takes %v on an idle link, %v beside K, %v where the queue has no priorities (medians)",
		median(idle),
		median(busy),
		median(plain),
	)
	if slowest := slices.Max(busy); slowest > firstWithin {
		t.Errorf("beside K an answer took %v", slowest)
	}
	if median(busy) > median(plain)/2 {
		t.Error("with priorities an answer waits as if there were none")
	}
	l.until(ended, func() bool { return y.bytes.Load() > before }) // K was sent all the time
	cancel()
	for range loading {
		<-ended
	}
}

// begin makes machines load until ctx is done, and waits until K has used the link for a while.
func (l *loaders) begin(ctx context.Context, loading int, y *tally) <-chan error {
	l.t.Helper()
	ended := make(chan error, loading)
	for i := range loading {
		go func() { ended <- l.load(ctx, i, y) }()
	}
	l.until(ended, func() bool { return y.bytes.Load() > int64(loading)<<19 })
	return ended
}

// until waits for a condition while machines load.
func (l *loaders) until(ended <-chan error, what func() bool) {
	l.t.Helper()
	for !what() {
		select {
		case err := <-ended:
			l.t.Fatalf("a machine loads no more: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// queue replaces the queue of the server's link.
func (l *loaders) queue(kind string) {
	l.t.Helper()
	c := l.star.Server.Command(
		l.t.Context(),
		"tc",
		"qdisc",
		"replace",
		"dev",
		testkit.LinkName,
		"parent",
		"1:1",
		"handle",
		"3:",
		kind,
	)
	if out, err := c.CombinedOutput(); err != nil {
		l.t.Fatalf("queue %s: %v\n%s", kind, err, out)
	}
}

func median(d []time.Duration) time.Duration { return slices.Sorted(slices.Values(d))[len(d)/2] }

// first sends DHCP and TFTP requests in turn, and returns how long each answer took. It calls then after each.
func (l *loaders) first(n *testkit.Net, then func()) (took []time.Duration) {
	l.t.Helper()
	for i := range 10 {
		for _, ask := range []func(*testkit.Net, byte) error{offer, block} {
			began := time.Now()
			if err := ask(n, byte(i)); err != nil {
				l.t.Fatal(err)
			}
			took = append(took, time.Since(began))
			if then != nil {
				then()
			}
		}
	}
	return took
}

// answerWithin bounds the wait for an answer; after it the test fails.
const answerWithin = 20 * time.Second

// offer requests a DHCP offer with a boot file, as the ROM of a NIC does.
func offer(n *testkit.Net, number byte) error {
	return discover(n, number, "PXEClient:Arch:00000:UNDI:002001", "")
}

// discover sends DHCPDISCOVER and waits for the offer.
func discover(n *testkit.Net, number byte, class, user string) error {
	a := n.Addr.Addr().As4()
	mac := net.HardwareAddr{0x02, 0x70, a[0], a[1], a[2], a[3]} // the address that the star gave it
	mods := []dhcpv4.Modifier{
		dhcpv4.WithTransactionID(dhcpv4.TransactionID{1, a[3], 0, number}),
		dhcpv4.WithBroadcast(true),
		dhcpv4.WithOption(
			dhcpv4.OptClassIdentifier(class),
		),
		dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionClientSystemArchitectureType, []byte{0, 0})),
		dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionClientNetworkInterfaceIdentifier, []byte{1, 2, 1})),
		dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionClientMachineIdentifier, append(make([]byte, 16), number))),
	}
	if user != "" {
		mods = append(mods, dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionUserClassInformation, []byte(user))))
	}
	p, err := dhcpv4.NewDiscovery(mac, mods...)
	if err != nil {
		return err
	}
	return n.Do(func() error {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{Port: 68})
		if err != nil {
			return err
		}
		defer c.Close()
		raw, err := c.SyscallConn()
		if err != nil {
			return err
		}
		var failed error
		err = raw.Control(func(fd uintptr) {
			failed = errors.Join(
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1),
				unix.BindToDevice(int(fd), testkit.LinkName),
			)
		})
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		return exchange(
			c,
			p.ToBytes(),
			netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), 67),
			func(b []byte, _ netip.AddrPort) bool {
				got, err := dhcpv4.FromBytes(b)
				// a ROM without a boot file after several requests first gets a PXE menu
				return err == nil && got.TransactionID == p.TransactionID &&
					(got.BootFileName != "" || got.ClassIdentifier() == "PXEClient")
			},
		)
	})
}

// block requests the first block of a boot file by TFTP.
func block(n *testkit.Net, _ byte) error {
	return n.Do(func() error {
		c, err := net.ListenUDP("udp4", nil)
		if err != nil {
			return err
		}
		defer c.Close()
		return exchange(
			c,
			[]byte("\x00\x01autoexec.ipxe\x00octet\x00"),
			netip.AddrPortFrom(subnet.Addr(), 69),
			func(b []byte, from netip.AddrPort) bool {
				_, err = c.WriteToUDPAddrPort(
					[]byte("\x00\x05\x00\x00enough\x00"),
					from,
				) // an address may have at most eight transfers
				return err == nil && len(b) > 4 && binary.BigEndian.Uint32(b) == 3<<16|1
			},
		)
	})
}

// exchange sends a request and waits for its answer. It does not repeat the request, because that would hide a loss.
func exchange(c *net.UDPConn, question []byte, to netip.AddrPort, is func([]byte, netip.AddrPort) bool) error {
	if _, err := c.WriteToUDPAddrPort(question, to); err != nil {
		return err
	}
	b := make([]byte, 2048)
	for {
		if err := c.SetReadDeadline(time.Now().Add(answerWithin)); err != nil {
			return err
		}
		n, from, err := c.ReadFromUDPAddrPort(b)
		if err != nil {
			return fmt.Errorf("no answer of %v: %w", to, err)
		}
		if is(b[:n], from) {
			return nil
		}
	}
}
