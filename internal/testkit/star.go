package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Rate is the speed of a link, in bits per second.
type Rate int64

// The units that rates are written in.
const (
	Kbit Rate = 1000
	Mbit Rate = 1000 * Kbit
	Gbit Rate = 1000 * Mbit
)

// ParseRate parses "10mbit", "1gbit", "800kbit".
func ParseRate(s string) (Rate, error) {
	for suffix, unit := range map[string]Rate{"kbit": Kbit, "mbit": Mbit, "gbit": Gbit} {
		if digits, ok := strings.CutSuffix(s, suffix); ok {
			if n, err := strconv.ParseFloat(digits, 64); err == nil && n > 0 && n*float64(unit) < 1e12 {
				return Rate(n * float64(unit)), nil
			}
		}
	}
	return 0, fmt.Errorf("rate %q: want a number with kbit, mbit or gbit, such as 10mbit", s)
}

// String is what ParseRate reads, with four digits.
func (r Rate) String() string {
	for _, u := range []struct {
		unit Rate
		name string
	}{{Gbit, "gbit"}, {Mbit, "mbit"}, {Kbit, "kbit"}} {
		if r >= u.unit {
			return strconv.FormatFloat(float64(r)/float64(u.unit), 'g', 4, 64) + u.name
		}
	}
	return strconv.FormatInt(int64(r), 10) + "bit"
}

// Star is a switch with one server and some nodes, each in a network namespace of its own, on links of a limited
// rate. A link is a pair of veth interfaces with a token bucket (tbf) on both of its ends, so each direction has
// its rate, of which a frame takes what it takes on Ethernet (FrameOverhead). Packets are of at most one MTU: a
// bucket that is fed with packets of 64 KiB would send them in one piece. TCP's congestion control is cubic, as it
// is on the machines that this stands for, or reno, whatever this one uses.
type Star struct {
	Server *Net   // its bridge has Config.Server as its address
	Nodes  []*Net // without a bridge; the interface is LinkName

	config StarConfig
	hub    *Net
	wires  []*wire
	delay  atomic.Int64 // of each wire, in nanoseconds
}

// LinkName is the interface of a node in a Star.
const LinkName = "lan0"

// StarConfig describes a Star.
type StarConfig struct {
	Prefix string       // of the names of the namespaces
	Server netip.Prefix // address of the server, and the subnet that the nodes get theirs from
	Nodes  int
	// frames of a connection travel together, as cards and their drivers join them (TSO, GRO); else each goes by
	// itself, so that queues are exact
	Joined bool
	Wired  bool // Delay can be called: each link is carried by this program, which takes processor time for each packet
}

// NewStar makes the namespaces and links, without limits. Close it.
func NewStar(ctx context.Context, c StarConfig) (*Star, error) {
	s := &Star{config: c}
	if room := 1<<(32-c.Server.Bits()) - 3; c.Nodes > room {
		return nil, fmt.Errorf("%d nodes do not fit into %s", c.Nodes, c.Server.Masked())
	}
	if err := s.build(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Star) build(ctx context.Context) (err error) {
	hub := netip.PrefixFrom(netip.MustParseAddr("192.0.2.1"), 32) // a switch needs no address, and NewNet gives one
	if s.hub, err = NewNet(s.config.Prefix, hub); err != nil {
		return err
	}
	if s.Server, err = NewNet(s.config.Prefix, s.config.Server); err != nil {
		return err
	}
	if err := errors.Join(s.hub.plain(), s.Server.plain()); err != nil {
		return err
	}
	if err := s.join(s.Server, serverPort, "master", BridgeName); err != nil {
		return err
	}
	if err := errors.Join(s.Server.IP("link", "set", BridgeName, "gso_max_segs", s.segments()), s.Server.cubic(),
		s.hub.unfiltered(), s.Server.unfiltered()); err != nil {
		return err
	}
	for i := range s.config.Nodes {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := &Net{Name: nextName(s.config.Prefix), Addr: netip.PrefixFrom(s.NodeAddr(i), s.config.Server.Bits())}
		if err := ip("netns", "add", n.Name); err != nil {
			return fmt.Errorf("make network namespace %s: %w", n.Name, err)
		}
		s.Nodes = append(s.Nodes, n)
		if err := n.plain(); err != nil {
			return err
		}
		if err := s.join(n, nodePort(i)); err != nil {
			return err
		}
		if err := errors.Join(n.batch("ip", fmt.Sprintf("link set lo up\nlink set %[1]s address %[2]s\naddr add "+
			"%[3]s dev %[1]s", LinkName, madeMAC(n.Addr.Addr()), n.Addr)), n.cubic()); err != nil {
			return err
		}
	}
	return nil
}

// plain turns IPv6 off in a namespace, before it has a link that is up: nothing here uses it, and hundreds of hosts
// would tell all others of it.
func (n *Net) plain() error { return n.set("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1") }

// set writes a setting of the kernel for a namespace. That there is none is no error: nor is what it would change.
func (n *Net) set(setting, value string) error {
	return n.Do(func() error { // /proc/sys/net is that of the thread that opens it
		if err := os.WriteFile(setting, []byte(value), 0o644); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// cubic sets the congestion control of a namespace. Where the kernel lets only its own namespace use that, it is
// reno, which all may: on links like these the two differ little, and bbr, which such machines have, differs much.
func (n *Net) cubic() error {
	return n.Do(func() error {
		err := os.WriteFile(congestion, []byte("cubic"), 0o644)
		if errors.Is(err, fs.ErrPermission) {
			err = os.WriteFile(congestion, []byte("reno"), 0o644)
		}
		return err
	})
}

const congestion = "/proc/sys/net/ipv4/tcp_congestion_control" // of the namespace of the thread that opens it

// The switch's ports.
const serverPort = "server"

func nodePort(i int) string { return "node" + strconv.Itoa(i) }

// segments is how many frames of a connection travel together at most. More would not fit into a bucket.
func (s *Star) segments() string {
	if s.config.Joined {
		return strconv.Itoa(burst / frame)
	}
	return "1"
}

// join links a namespace to the switch. more is said of its end of the link.
func (s *Star) join(n *Net, port string, more ...string) error {
	err := s.hub.batch("ip", fmt.Sprintf(`link add %[1]s gso_max_segs %[4]s type veth peer name %[2]s netns %[3]s
link set %[1]s gso_max_segs %[4]s up`, port, LinkName, n.Name, s.segments()))
	if err == nil {
		err = s.plug(port)
	}
	if err != nil {
		return err
	}
	return n.IP(append([]string{"link", "set", LinkName, "gso_max_segs", s.segments(), "up"}, more...)...)
}

// plug connects a port with the switch: by a wire, where there are wires.
func (s *Star) plug(port string) error {
	if !s.config.Wired {
		return s.hub.IP("link", "set", port, "master", BridgeName)
	}
	localEnd, far := "w"+port, "s"+port
	err := s.hub.batch("ip", fmt.Sprintf(`link add %[1]s gso_max_segs %[4]s type veth peer name %[2]s
link set %[1]s gso_max_segs %[4]s up
link set %[2]s gso_max_segs %[4]s master %[3]s up`, localEnd, far, BridgeName, s.segments()))
	if err != nil {
		return err
	}
	w, err := newWire(s.hub, port, localEnd, &s.delay)
	if err == nil {
		s.wires = append(s.wires, w)
	}
	return err
}

// Delay makes each way between two hosts of a wired star half of d longer, and their round trip d.
func (s *Star) Delay(d time.Duration) { s.delay.Store(int64(d / 2)) }

// Host makes the end of node i's link a bridge, for machines: they have the link, and the node has no address any more.
func (s *Star) Host(i int) error {
	return s.Nodes[i].batch("ip", fmt.Sprintf(`addr flush dev %[1]s
link add %[2]s type bridge forward_delay 0 stp_state 0
link set %[1]s master %[2]s
link set %[2]s up`, LinkName, BridgeName))
}

// unfiltered keeps the packets of bridges from the firewall of a namespace: a switch has none, and it would take a
// twentieth of the processor.
func (n *Net) unfiltered() error {
	var err error
	for _, kind := range []string{"iptables", "ip6tables", "arptables"} {
		err = errors.Join(err, n.set("/proc/sys/net/bridge/bridge-nf-call-"+kind, "0"))
	}
	return err
}

// Acquaint adds permanent ARP entries for all nodes and the server. Real machines have a neighbour table each; here all
// share this kernel's, which has room for 1,024. With fifty nodes that each contact thirty it is full, and packets are
// dropped. Permanent entries do not count.
func (s *Star) Acquaint() error {
	all := append([]*Net{s.Server}, s.Nodes...)
	for _, n := range all {
		device := LinkName
		if n == s.Server {
			device = BridgeName
		}
		var lines strings.Builder
		for _, o := range all {
			if o != n {
				fmt.Fprintf(
					&lines,
					"neigh replace %s lladdr %s nud permanent dev %s\n",
					o.Addr.Addr(),
					madeMAC(o.Addr.Addr()),
					device,
				)
			}
		}
		if err := n.batch("ip", lines.String()); err != nil {
			return err
		}
	}
	return nil
}

// Unplug has the cable of node i out of the switch, and Plug in it again: nobody hears of it, as of a machine
// without power.
func (s *Star) Unplug(i int) error { return s.hub.IP("link", "set", nodePort(i), "down") }

// Plug ends what Unplug began.
func (s *Star) Plug(i int) error { return s.hub.IP("link", "set", nodePort(i), "up") }

// NodeAddr is the address of node i: the ones after the server's.
func (s *Star) NodeAddr(i int) netip.Addr {
	a := s.config.Server.Addr()
	for range i + 1 {
		a = a.Next()
	}
	return a
}

// Limit sets the rates: of the server's link, and of each node's.
func (s *Star) Limit(server, node Rate) error {
	err := errors.Join(s.hub.limit(func(counted bool) string {
		var lines strings.Builder
		fmt.Fprintln(&lines, limit(serverPort, server, counted))
		for i := range s.Nodes {
			fmt.Fprintln(&lines, limit(nodePort(i), node, counted))
		}
		return lines.String()
	}), s.Server.limitHost(server), s.Server.retransmit(min(server, node)))
	for _, n := range s.Nodes {
		err = errors.Join(err, n.limitHost(node), n.retransmit(min(server, node)))
	}
	return err
}

// usualRetransmit is how soon TCP sends again what was not acknowledged, at the earliest.
const usualRetransmit = 200 * time.Millisecond

// retransmitAfter is that where links are so slow that a full queue takes longer. On the links that these stand for
// it is many times as long as a queue; here, TCP would take what waits for lost and send it again and again, until
// half of what a link carries is that.
func retransmitAfter(slowest Rate) time.Duration {
	full := time.Duration(float64(queue(slowest)*8) / float64(slowest) * float64(time.Second))
	return max(usualRetransmit, 2*full)
}

// retransmit sets it. Kernels before 6.11 have no such setting.
func (n *Net) retransmit(slowest Rate) error {
	return n.set("/proc/sys/net/ipv4/tcp_rto_min_us", strconv.FormatInt(retransmitAfter(slowest).Microseconds(), 10))
}

// A bucket's depth, and the queue before it, in bytes. The queue holds 50 ms of what the link can send, but never less
// than the port of a small switch has: a slow link that stands for a fast one shall lose packets no more often.
const (
	burst      = 64 << 10
	shortQueue = 128 << 10
)

// FrameOverhead is what Ethernet has around a frame, in bytes of a link's time: preamble 8, checksum 4, gap 12. The
// kernel counts none of it by itself.
const FrameOverhead = 24

// limit is the line of `tc -batch` that limits what the port of a switch sends. counted: the kernel counts what is
// around a frame; else the rate is as much lower as that is of the longest frame, which most are.
func limit(device string, r Rate, counted bool) string {
	around, rate := fmt.Sprintf("stab overhead %d linklayer ethernet ", FrameOverhead), int64(r)
	if !counted {
		around, rate = "", rate*frame/(frame+FrameOverhead)
	}
	return fmt.Sprintf(
		"qdisc replace dev %s root handle 1: %stbf rate %dbit burst %d limit %d",
		device,
		around,
		rate,
		burst,
		queue(r),
	)
}

// limit runs what sets rates, and once more without size tables where the kernel refuses those.
func (n *Net) limit(lines func(counted bool) string) error {
	if n.batch("tc", lines(true)) == nil {
		return nil
	}
	return n.batch("tc", lines(false))
}

func queue(r Rate) int64 { return max(shortQueue, int64(r)/8/20) }

// frame is the longest packet with its header.
const frame = 1514

// limitHost limits what a host sends. Its queue has as much room as that of a port, and is of the kind that Linux
// gives an interface by itself: pfifo_fast, which lets short messages pass those who say that what they send is
// bulk.
func (n *Net) limitHost(r Rate) error {
	return errors.Join(n.batch("ip", fmt.Sprintf("link set dev %s txqueuelen %d", LinkName, queue(r)/frame)),
		n.limit(func(counted bool) string {
			return fmt.Sprintf(
				"qdisc replace dev %[1]s root pfifo\n%[2]s\nqdisc add dev %[1]s parent 1:1 handle 2: pfifo_fast",
				LinkName,
				limit(LinkName, r, counted),
			)
		}))
}

// ServerSent is how many bytes the server has sent over its link: frames, without what Ethernet has around them.
func (s *Star) ServerSent() (int64, error) { return s.hub.counter(serverPort, "rx_bytes") }

// NodeSent is how many bytes node i has sent, to the server and to others.
func (s *Star) NodeSent(i int) (int64, error) { return s.hub.counter(nodePort(i), "rx_bytes") }

// NodeReceived is how many bytes were sent to node i.
func (s *Star) NodeReceived(i int) (int64, error) { return s.hub.counter(nodePort(i), "tx_bytes") }

// counter reads a counter of an interface, by `ip` because /sys shows this process' own namespace.
func (n *Net) counter(device, name string) (int64, error) {
	var value int64
	err := n.Do(func() error {
		// A fresh mount of /sys would be needed for its files; the kernel's table of interfaces follows the thread.
		table, err := os.ReadFile("/proc/thread-self/net/dev")
		if err == nil {
			value, err = deviceCounter(table, device, name)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("counter %s of %s in %s: %w", name, device, n.Name, err)
	}
	return value, nil
}

// deviceCounter finds rx_bytes or tx_bytes in /proc/net/dev.
func deviceCounter(table []byte, device, name string) (int64, error) {
	column, ok := map[string]int{"rx_bytes": 0, "rx_packets": 1, "tx_bytes": 8, "tx_packets": 9}[name]
	if !ok {
		return 0, fmt.Errorf("no such counter")
	}
	for line := range bytes.Lines(table) {
		head, rest, ok := strings.Cut(string(line), ":")
		if fields := strings.Fields(rest); ok && strings.TrimSpace(head) == device && len(fields) > column {
			return strconv.ParseInt(fields[column], 10, 64)
		}
	}
	return 0, os.ErrNotExist
}

// batch runs lines by `ip -batch` or `tc -batch` inside the namespace.
func (n *Net) batch(program, lines string) error {
	c := exec.Command(program, "-n", n.Name, "-batch", "-")
	c.Stdin = strings.NewReader(lines + "\n")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s in %s: %w: %s", program, n.Name, err, bytes.TrimSpace(out))
	}
	return nil
}

// Close removes all namespaces. Programs in them keep running without a network.
func (s *Star) Close() error {
	var err error
	for _, w := range s.wires {
		err = errors.Join(err, w.Close())
	}
	for _, n := range append(s.Nodes, s.Server, s.hub) {
		if n != nil {
			err = errors.Join(err, n.Close())
		}
	}
	return err
}
