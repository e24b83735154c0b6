package testkit

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]Rate{"10mbit": 10 * Mbit, "1gbit": Gbit, "800kbit": 800 * Kbit,
		"2.5gbit": 2500 * Mbit} {
		got, err := ParseRate(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q: got %d (%s), %v", text, got, got, err)
		}
	}
	for _, text := range []string{"", "10", "mbit", "0mbit", "-1mbit", "nanmbit", "1tbit", "9999gbit"} {
		if got, err := ParseRate(text); err == nil {
			t.Errorf("%q: got %s, want an error", text, got)
		}
	}
}

func TestDeviceCounter(t *testing.T) {
	table := []byte(
		"Inter-|   Receive\n face |bytes    packets\n    lo:       0       0    0    0    0     0          0      " +
			"   0\n" +
			" node1: 1001 12 0 0 0 0 0 0 2002 24 0 0 0 0 0 0\nnode11:7 1 0 0 0 0 0 0 8 1 0 0 0 0 0 0\n",
	)
	for name, want := range map[string]int64{"rx_bytes": 1001, "rx_packets": 12, "tx_bytes": 2002, "tx_packets": 24} {
		if got, err := deviceCounter(table, "node1", name); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", name, got, err, want)
		}
	}
	if _, err := deviceCounter(table, "node2", "rx_bytes"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a device that is not there: %v", err)
	}
	if _, err := deviceCounter(table, "node1", "colour"); err == nil {
		t.Error("a counter that does not exist was found")
	}
}

// newTestStar makes a star, or skips the test if that is not possible.
func newTestStar(t *testing.T, nodes int) *Star {
	t.Helper()
	return newTestStarOf(t, StarConfig{Nodes: nodes})
}

func newTestStarOf(t *testing.T, c StarConfig) *Star {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	c.Prefix, c.Server = "kit", netip.MustParsePrefix("10.78.0.1/24")
	s, err := NewStar(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Bytes between nodes, and from the server, are counted at the sender, and no packet is larger than the MTU.
func TestStarCountsWhatIsSent(t *testing.T) {
	s := newTestStar(t, 2)
	if err := s.Limit(400*Mbit, 200*Mbit); err != nil {
		t.Fatal(err)
	}
	const n = 2 << 20
	for _, from := range []struct {
		net  *Net
		addr netip.Addr
		port string
	}{{s.Server, s.config.Server.Addr(), serverPort}, {s.Nodes[1], s.NodeAddr(1), nodePort(1)}} {
		before, err := s.hub.counter(from.port, "rx_bytes")
		if err != nil {
			t.Fatal(err)
		}
		transfer(t, from.net, from.addr, s.Nodes[0], n)
		after, err := s.hub.counter(from.port, "rx_bytes")
		if err != nil {
			t.Fatal(err)
		}
		packets, err := s.hub.counter(from.port, "rx_packets")
		if err != nil {
			t.Fatal(err)
		}
		if sent := after - before; sent < n || sent > n*11/10 {
			t.Errorf("%s: %d bytes were sent for %d", from.port, sent, n)
		}
		if after/packets > 1514 {
			t.Errorf("%s: packets of %d bytes: segmentation offload is on", from.port, after/packets)
		}
	}
}

// TestStarJoined: packets are longer than a frame, and a link carries as much as with single frames.
func TestStarJoined(t *testing.T) {
	s := newTestStarOf(t, StarConfig{Nodes: 1, Joined: true})
	if err := s.Limit(8*Mbit, 8*Mbit); err != nil {
		t.Fatal(err)
	}
	const n = 1 << 20
	begun := time.Now()
	transfer(t, s.Server, s.config.Server.Addr(), s.Nodes[0], n)
	took := time.Since(begun)
	sent, err := s.hub.counter(serverPort, "rx_bytes")
	if err != nil {
		t.Fatal(err)
	}
	packets, err := s.hub.counter(serverPort, "rx_packets")
	if err != nil {
		t.Fatal(err)
	}
	if sent/packets < 2*frame {
		t.Errorf("packets of %d bytes: no frames were joined", sent/packets)
	}
	if took < time.Second/2 {
		t.Errorf("%d bytes took %v on a link of 1 MB/s", n, took)
	}
}

// TestStarIsCubic: congestion control is cubic, or reno if cubic is not permitted, whatever this machine uses.
func TestStarIsCubic(t *testing.T) {
	s := newTestStar(t, 1)
	for _, n := range []*Net{s.Server, s.Nodes[0]} {
		out, err := n.Command(t.Context(), "cat", congestion).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != "cubic" && got != "reno" {
			t.Errorf("%s: %s, %v", n.Name, out, err)
		}
	}
}

// transfer sends n bytes from one namespace to another.
func transfer(t *testing.T, from *Net, addr netip.Addr, to *Net, n int64) {
	t.Helper()
	transferTo(t, from, addr, to, n, func(c io.Reader) (int64, error) { return io.Copy(io.Discard, c) })
}

// transferTo sends n bytes to a receiver that reads with the given function, which returns how much it got.
func transferTo(t *testing.T, from *Net, addr netip.Addr, to *Net, n int64, read func(io.Reader) (int64, error)) {
	t.Helper()
	var l net.Listener
	err := from.Do(func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sent := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = c.Write(make([]byte, n))
			err = errors.Join(err, c.Close())
		}
		sent <- err
	}()
	c, err := to.Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := read(c); err != nil || got != n {
		t.Errorf("received %d bytes, %v", got, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func TestStarLimitsBothEnds(t *testing.T) {
	s := newTestStar(t, 1)
	for _, r := range []Rate{10 * Mbit, 20 * Mbit} { // the second replaces the first
		if err := s.Limit(3*r, r); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []struct {
		net    *Net
		device string
		rate   string
	}{{s.hub, serverPort, "60Mbit"}, {s.Server, LinkName, "60Mbit"}, {s.hub, nodePort(0), "20Mbit"},
		{s.Nodes[0], LinkName, "20Mbit"}} {
		out, err := exec.Command("tc", "-n", at.net.Name, "qdisc", "show", "dev", at.device).Output()
		if err != nil || !strings.Contains(string(out), "tbf") || !strings.Contains(string(out), "rate "+at.rate) {
			t.Errorf("%s of %s: %s (%v), want tbf at %s", at.device, at.net.Name, out, err, at.rate)
		}
	}
}

// A link carries as much as Ethernet of its rate: of 1,538 bytes of a frame TCP has 1,448 for data, 0.94 of the rate. A
// busy machine may make it slower but nothing makes it faster, so the best of several measurements counts.
func TestStarCountsFramesAsEthernetDoes(t *testing.T) {
	s := newTestStar(t, 2)
	const rate = 60 * Mbit
	if err := s.Limit(rate, rate); err != nil {
		t.Fatal(err)
	}
	for _, from := range []struct {
		net  *Net
		addr netip.Addr
	}{{s.Server, s.config.Server.Addr()}, {s.Nodes[1], s.NodeAddr(1)}} {
		best := 0.0
		for range 3 {
			if best = max(best, goodput(t, from.net, from.addr, s.Nodes[0], 14<<20)/float64(rate)); best >= 0.94*0.995 {
				break
			}
		}
		if best < 0.94*0.995 || best > 0.94*1.005 {
			t.Errorf("%s: data have %.4f of the link's rate, want 0.94", from.addr, best)
		}
	}
}

// goodput is how many bits of data a transfer of n bytes brings in a second, once the bucket is empty that it began
// with.
func goodput(t *testing.T, from *Net, addr netip.Addr, to *Net, n int64) float64 {
	t.Helper()
	const first = 1 << 20
	var began, ended time.Time
	transferTo(t, from, addr, to, n, func(c io.Reader) (int64, error) {
		begin, err := io.CopyN(io.Discard, c, first)
		began = time.Now()
		if err != nil {
			return begin, err
		}
		rest, err := io.Copy(io.Discard, c)
		ended = time.Now()
		return begin + rest, err
	})
	return float64(n-first) * 8 / ended.Sub(began).Seconds()
}

// Where the kernel cannot count what is around a frame, the rate of long frames is the same.
func TestLimitWithoutSizeTables(t *testing.T) {
	if got, want := limit("lan0", 1538*Kbit, false), "qdisc replace dev lan0 root handle 1: tbf rate 1514000bit "+
		"burst 65536 limit 131072"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := limit("lan0", 1538*Kbit, true), "qdisc replace dev lan0 root handle 1: stab overhead 24 "+
		"linklayer ethernet tbf rate 1538000bit "; !strings.HasPrefix(
		got,
		want,
	) {
		t.Errorf("got %q, want %q", got, want)
	}
	s := newTestStar(t, 0)
	var tried []bool
	err := s.Server.limit(func(counted bool) string {
		tried = append(tried, counted)
		if counted {
			return "qdisc of no kernel"
		}
		return limit(LinkName, Mbit, counted)
	})
	if err != nil || len(tried) != 2 {
		t.Errorf("refused: %v, after %v", err, tried)
	}
}

// A star that is too large, or whose making is interrupted, leaves nothing behind.
func TestStarThatIsNotMadeLeavesNothing(t *testing.T) {
	s := newTestStar(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewStar(ctx, StarConfig{Prefix: "kitgone", Server: s.config.Server, Nodes: 3}); !errors.Is(
		err,
		context.Canceled,
	) {
		t.Errorf("interrupted: got %v", err)
	}
	if _, err := NewStar(t.Context(), StarConfig{Prefix: "kitgone", Server: s.config.Server, Nodes: 254}); err == nil {
		t.Error("254 nodes and a server fit into a /24")
	}
	left, err := os.ReadDir("/run/netns")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range left {
		if strings.HasPrefix(n.Name(), "kitgone-") {
			t.Errorf("namespace %s was left", n.Name())
		}
	}
}

// A machine on a node's link is reached through it: here the machine is the bridge itself, at an address of its own.
func TestStarHost(t *testing.T) {
	s := newTestStar(t, 1)
	if err := s.Host(0); err != nil {
		t.Fatal(err)
	}
	if err := s.Nodes[0].IP("addr", "add", "10.78.0.99/24", "dev", BridgeName); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Nodes[0].Tap(); err != nil {
		t.Errorf("a machine's card: %v", err)
	}
	var l net.Listener
	err := s.Server.Do(func() (err error) {
		l, err = net.Listen("tcp", "10.78.0.1:0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	before, err := s.NodeReceived(0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Nodes[0].Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if from := c.LocalAddr().(*net.TCPAddr).IP.String(); from != "10.78.0.99" {
		t.Errorf("it speaks from %s: the node has its address still", from)
	}
	if after, err := s.NodeReceived(0); err != nil || after <= before {
		t.Errorf("the link's counter went from %d to %d, %v", before, after, err)
	}
}

// All know each other for good, and still talk: no packet waits for an answer of ARP, and the kernel's table, which
// all share, has room.
func TestStarAcquainted(t *testing.T) {
	s := newTestStar(t, 3)
	if err := s.Acquaint(); err != nil {
		t.Fatal(err)
	}
	for _, n := range append([]*Net{s.Server}, s.Nodes...) {
		out, err := n.Command(t.Context(), "ip", "-4", "neigh", "show", "nud", "permanent").CombinedOutput()
		if got := strings.Count(string(out), "lladdr"); err != nil || got != 3 {
			t.Errorf("%s knows %d neighbours for good, of 3: %s, %v", n.Name, got, out, err)
		}
	}
	transfer(t, s.Server, s.config.Server.Addr(), s.Nodes[0], 100_000)
	transfer(t, s.Nodes[2], s.NodeAddr(2), s.Nodes[1], 100_000)
}

// On a wired star a round trip takes as much longer as it is told, from the server as from another node, and what
// is carried is not harmed.
func TestStarDelays(t *testing.T) {
	s := newTestStarOf(t, StarConfig{Nodes: 2, Wired: true})
	if err := s.Limit(100*Mbit, 100*Mbit); err != nil {
		t.Fatal(err)
	}
	const more = 40 * time.Millisecond
	for _, from := range []struct {
		net  *Net
		addr netip.Addr
	}{{s.Server, s.config.Server.Addr()}, {s.Nodes[1], s.NodeAddr(1)}} {
		s.Delay(more)
		transfer(t, from.net, from.addr, s.Nodes[0], 1<<20)
		if took := roundTrip(t, from.net, from.addr, s.Nodes[0]); took < more {
			t.Errorf("%s: a round trip of %s, want %s and more", from.addr, took, more)
		}
		s.Delay(0)
		if took := roundTrip(t, from.net, from.addr, s.Nodes[0]); took >= more {
			t.Errorf("%s: a round trip of %s, without a delay", from.addr, took)
		}
	}
}

// roundTrip is how long it takes to be refused by a port that nobody listens on: the least of a few.
func roundTrip(t *testing.T, host *Net, addr netip.Addr, from *Net) time.Duration {
	t.Helper()
	least := time.Hour
	for range 5 {
		began := time.Now()
		if c, err := from.Dial(t.Context(), "tcp", netip.AddrPortFrom(addr, 9).String()); err == nil {
			t.Fatalf("%s of %s accepts %s", addr, host.Name, c.RemoteAddr())
		}
		least = min(least, time.Since(began))
	}
	return least
}
