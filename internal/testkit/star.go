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

// The units of rates.
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

// String formats a rate for ParseRate, with four digits.
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

// Star is a switch with one server and some nodes, each in its own network namespace, on links of a limited rate.
//
//	links       a pair of veth interfaces; a token bucket (tbf) on each end limits one direction
//	rates       count the overhead of Ethernet, see FrameOverhead
//	packets     at most one MTU: a bucket would send a packet of 64 KiB at once
//	TCP         congestion control is cubic, as on real machines, or else reno
type Star struct {
	Server *Net   // its bridge has the address Config.Server
	Nodes  []*Net // no bridge; their interface is LinkName

	config StarConfig
	hub    *Net
	wires  []*wire
	delay  atomic.Int64 // delay of each direction of a wire, in nanoseconds
}

// LinkName is the name of a node's interface in a Star.
const LinkName = "lan0"

// StarConfig describes a Star.
type StarConfig struct {
	Prefix string       // prefix of the namespaces' names
	Server netip.Prefix // address of the server and subnet of the nodes
	Nodes  int
	// frames of a connection travel together, as NICs and drivers join them (TSO, GRO); otherwise each frame is sent by
	// itself, so that queues are exact
	Joined bool
	Wired  bool // this program carries each link's frames, so that Delay can be used; takes processor time per packet
}

// NewStar makes the namespaces and links, without limits. The caller must call Close.
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

// plain disables IPv6 in a namespace before one of its links is up: it is not used here, and hundreds of hosts would
// announce themselves to each other.
func (n *Net) plain() error { return n.set("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1") }

// set writes a kernel setting for a namespace. A setting that does not exist is ignored, because then there is nothing
// to change.
func (n *Net) set(setting, value string) error {
	return n.Do(func() error { // /proc/sys/net shows the namespace of the thread that opens the file
		if err := os.WriteFile(setting, []byte(value), 0o644); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// cubic sets the congestion control of a namespace. Some kernels permit cubic only in their own namespace; then it is
// reno, which is always permitted. The two differ little on such links, but bbr differs much.
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

// The names of the switch's ports.
const serverPort = "server"

func nodePort(i int) string { return "node" + strconv.Itoa(i) }

// segments returns how many frames of a connection may travel together. More would not fit into a bucket.
func (s *Star) segments() string {
	if s.config.Joined {
		return strconv.Itoa(burst / frame)
	}
	return "1"
}

// join links a namespace to the switch. more has further settings for its end of the link.
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

// plug connects a port with the switch, over a wire if the star is wired.
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

// Delay adds d to the round trip between any two hosts of a wired star.
func (s *Star) Delay(d time.Duration) { s.delay.Store(int64(d / 2)) }

// Host makes the end of node i's link a bridge for machines. The node then has no address of its own.
func (s *Star) Host(i int) error {
	return s.Nodes[i].batch("ip", fmt.Sprintf(`addr flush dev %[1]s
link add %[2]s type bridge forward_delay 0 stp_state 0
link set %[1]s master %[2]s
link set %[2]s up`, LinkName, BridgeName))
}

// unfiltered disables the firewall for bridged packets in a namespace: a switch has none, and it would take a twentieth
// of the processor time.
func (n *Net) unfiltered() error {
	var err error
	for _, kind := range []string{"iptables", "ip6tables", "arptables"} {
		err = errors.Join(err, n.set("/proc/sys/net/bridge/bridge-nf-call-"+kind, "0"))
	}
	return err
}

// Acquaint adds permanent ARP entries for all nodes and the server. Real machines have a neighbour table each; here all
// share the kernel's, with a default limit of 1,024. When it is full, packets are dropped. Permanent entries do not
// count.
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

// Unplug disconnects node i from the switch. No host is notified, as with a machine that lost power.
func (s *Star) Unplug(i int) error { return s.hub.IP("link", "set", nodePort(i), "down") }

// Plug reverts Unplug.
func (s *Star) Plug(i int) error { return s.hub.IP("link", "set", nodePort(i), "up") }

// NodeAddr returns the address of node i. Nodes have the addresses after the server's.
func (s *Star) NodeAddr(i int) netip.Addr {
	a := s.config.Server.Addr()
	for range i + 1 {
		a = a.Next()
	}
	return a
}

// Limit sets the rate of the server's link and of each node's link.
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

// usualRetransmit is the kernel's minimum time before TCP repeats a segment that was not acknowledged.
const usualRetransmit = 200 * time.Millisecond

// retransmitAfter returns that minimum for links on which a full queue takes longer. Otherwise TCP would take waiting
// segments for lost and repeat them, until half of the traffic is repetitions. On the real, faster links the minimum is
// much longer than a queue.
func retransmitAfter(slowest Rate) time.Duration {
	full := time.Duration(float64(queue(slowest)*8) / float64(slowest) * float64(time.Second))
	return max(usualRetransmit, 2*full)
}

// retransmit sets the minimum in a namespace. Kernels before 6.11 lack the setting.
func (n *Net) retransmit(slowest Rate) error {
	return n.set("/proc/sys/net/ipv4/tcp_rto_min_us", strconv.FormatInt(retransmitAfter(slowest).Microseconds(), 10))
}

// Depth of a bucket, and of the queue before it, in bytes. The queue holds 50 ms of the link's rate, but at least as
// much as the port of a small switch, so that a slow link which stands for a fast one does not lose more packets.
const (
	burst      = 64 << 10
	shortQueue = 128 << 10
)

// FrameOverhead is the overhead of Ethernet per frame in bytes: preamble 8, checksum 4, gap 12. The kernel does not
// count it by default.
const FrameOverhead = 24

// limit returns the line for `tc -batch` that limits what a switch port sends. With counted the kernel counts the
// overhead of frames; otherwise the rate is reduced by the overhead of the longest frame.
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

// limit runs the tc lines that set rates, and repeats that without size tables if the kernel refuses them.
func (n *Net) limit(lines func(counted bool) string) error {
	if n.batch("tc", lines(true)) == nil {
		return nil
	}
	return n.batch("tc", lines(false))
}

func queue(r Rate) int64 { return max(shortQueue, int64(r)/8/20) }

// frame is the length of the longest packet with its Ethernet header, in bytes.
const frame = 1514

// limitHost limits what a host sends. Its queue is as long as that of a port, and of Linux's default kind pfifo_fast,
// which lets short messages pass packets that are marked as bulk.
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

// ServerSent returns how many bytes the server has sent over its link: frames, without Ethernet's overhead.
func (s *Star) ServerSent() (int64, error) { return s.hub.counter(serverPort, "rx_bytes") }

// NodeSent returns how many bytes node i has sent to the server and to others.
func (s *Star) NodeSent(i int) (int64, error) { return s.hub.counter(nodePort(i), "rx_bytes") }

// NodeReceived returns how many bytes were sent to node i.
func (s *Star) NodeReceived(i int) (int64, error) { return s.hub.counter(nodePort(i), "tx_bytes") }

// counter returns a counter of an interface in the namespace.
func (n *Net) counter(device, name string) (int64, error) {
	var value int64
	err := n.Do(func() error {
		// A mounted /sys shows the namespace in which it was mounted; this file shows the thread's.
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

// deviceCounter finds a counter in the text of /proc/net/dev.
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

// batch runs lines with `ip -batch` or `tc -batch` inside the namespace.
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
