package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"pando/internal/chunk"
)

// Goodput is the share of a link's nominal rate that TCP carries as data, with Ethernet frames of 1500 bytes.
const Goodput = 0.94

// Config describes a storm. Rates are in bits per second, sizes in bytes.
type Config struct {
	Nodes      int
	Servers    int   // default 1
	NodeLink   int64 // bits a second
	ServerLink int64 // bits per second, of each server

	Pieces int           // of the boot pack
	W      int64         // bytes of all of them
	K      int64         // bytes of kernel+initrd that firmware loads first; 0: the storm begins after it
	KRate  int64         // bits per second at which firmware loads K; 0: the rate of the node's link
	Start  time.Duration // time from the end of K to the request for the boot pack
	Passed bool          // nodes that have begun serve K to others

	Files int64 // bytes of the bootstrap files; 0: nodes have them
	// Number of demand objects that a boot reads. It reads the first, such as the index root, before all pieces.
	Demand     int
	DemandSize int64 // bytes of each

	Unicast bool // no peers: everything from the servers
	Reads   bool // each node reads the pieces in order and waits for the first one that it lacks
	// Computing time of each boot between its reads, in total. A node is done when it has read the last piece. Needs
	// Reads.
	Think  time.Duration
	Subnet int           // nodes per subnet; 0: all nodes are in one
	Places int           // number of racks, which nodes do not share beyond; 0: no racks
	Delay  time.Duration // one way; default 0.1 ms
	Seed   uint64
	Spread time.Duration // nodes begin at random within this time; 0: all at once

	Faults Faults
}

// Faults are the faults in a storm.
type Faults struct {
	Kill      float64       // share of the nodes that die at KillAt for good
	KillAt    time.Duration // time since the storm began
	Silent    bool          // they lose their power, so no connection is closed
	Tracker   time.Duration // the trackers are lost at this moment; 0: never
	Slow      int           // nodes with a tenth of the rate
	Wrong     int           // nodes that send wrong bytes
	Short     int           // nodes that begin first, and whose uploads all break off
	Delayed   int           // nodes that start only after DelayedBy
	DelayedBy time.Duration
	Closed    int // nodes that others cannot reach
	Alone     int // nodes that others cannot reach, and that can reach no other
}

// Result is the result of a storm. Times count from the beginning of the storm.
type Result struct {
	Last, Median time.Duration // until the last node was done, and half of them; without dead or slow nodes
	LastK        time.Duration // until the last node had K
	SlowLast     time.Duration // Last of the nodes with a slow link
	Unfinished   int           // live nodes that never got everything

	ServerBytes int64 // root bytes that servers sent
	KBytes      int64 // bytes of K that servers sent
	KPassed     int64 // bytes of K that nodes sent
	KAtOnce     int   // largest number of nodes that a server sent K to at the same moment
	PeerBytes   int64
	Pieces      int64 // pieces that servers sent completely
	FileBytes   int64 // bytes of bootstrap files that servers sent
	Requests    int64 // messages to the trackers
	Starts      int64 // join requests among them
	Finds       int64 // demand requests among them
	Control     int64 // bytes of all messages and replies, with HTTP headers
	Haves       int64 // messages that tell a node which pieces another has
	Busy        int64 // uploads that a peer refused
	Wasted      int64 // bytes of transfers that failed
	Banned      int   // addresses that a tracker banned
	Events      int64
}

// storm is the state of a running storm.
type storm struct {
	Config
	clock
	rand      *rand.Rand
	nodes     []*node
	servers   []*server
	flows     []flow
	free      []int32 // free entries of flows
	quantum   int     // bytes that pass a link at a time
	left      int     // nodes that are not done
	kSent     int64
	pieces    []chunk.ID // of the pack
	objects   []chunk.ID // demand objects
	calls     []func()   // calls delayed by the network
	freeCalls []int32
	res       Result
}

func (c *Config) defaults() error {
	if c.Servers == 0 {
		c.Servers = 1
	}
	if c.Delay == 0 {
		c.Delay = 100 * time.Microsecond
	}
	switch {
	case c.Nodes <= 0 || c.Nodes > 1<<20:
		return fmt.Errorf("%d nodes: from 1 to %d can be simulated", c.Nodes, 1<<20)
	case c.NodeLink <= 0 || c.ServerLink <= 0:
		return errors.New("links need a rate above 0")
	case c.Pieces <= 0 || c.W < int64(c.Pieces):
		return fmt.Errorf("%d bytes in %d pieces: each piece of a boot set has bytes", c.W, c.Pieces)
	case c.Files < 0 || c.Demand < 0 || c.Demand > 0 && c.DemandSize <= 0:
		return errors.New("sizes of files and demand objects must not be negative, and demand objects need a size")
	case c.KRate < 0:
		return errors.New("the rate of firmware must not be negative")
	case c.Think < 0 || c.Think > 0 && !c.Reads:
		return errors.New("a computing time must not be negative, and needs reads")
	case c.Faults.Delayed+c.Faults.Slow+c.Faults.Wrong+c.Faults.Short+c.Faults.Closed+c.Faults.Alone > c.Nodes,
		c.Faults.Kill < 0, c.Faults.Kill > 1:
		return errors.New("more faults than nodes")
	}
	return nil
}

// peerFetches is how many concurrent transfers from peers a node of package swarm has.
const peerFetches = 6

// manyNodes: larger storms are simulated in coarser parts of transfers, to finish within a minute.
const manyNodes = 2000

// forever is the virtual time at which a storm is given up. Nodes send keep-alives without end.
const forever = 24 * time.Hour

// Run runs a storm, in which all nodes of a fleet start together, to its end. Rates are goodput, 94 % of the link's
// nominal rate. A time in units of W/B is how many times longer than one node alone on a perfect link: W is the bytes
// that a boot reads, B the rate of a node's link.
func Run(c Config) (Result, error) {
	if err := c.defaults(); err != nil {
		return Result{}, fmt.Errorf("simulate: %w", err)
	}
	f := &storm{Config: c, rand: rand.New(rand.NewPCG(c.Seed, 1)), left: c.Nodes}
	quanta := 4
	if c.Nodes > manyNodes {
		quanta = 2
	}
	f.quantum = max(1, (f.size()+quanta-1)/quanta)
	f.pieces, f.objects = names(0, c.Pieces), names(c.Pieces, c.Demand)
	for i := range c.Servers {
		f.servers = append(f.servers, newServer(f, i))
	}
	for i := range c.Nodes {
		f.nodes = append(f.nodes, newNode(f, i))
	}
	f.begin()
	for f.left > 0 {
		e, ok := f.next()
		if !ok || e.at > forever {
			break
		}
		f.res.Events++
		f.handle(e)
	}
	return f.result(), nil
}

// size returns the bytes of a piece.
func (f *storm) size() int { return int(f.W / int64(f.Pieces)) }

// bytesPerSecond returns the goodput of a link.
func bytesPerSecond(bits int64) float64 { return float64(bits) / 8 * Goodput }

// Unit returns W/B: the time in which a lone node with its own link gets its boot set.
func (c Config) Unit() time.Duration {
	return time.Duration(float64(c.W) / bytesPerSecond(c.NodeLink) * float64(time.Second))
}

func (f *storm) address(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 8080)
}

// index is the inverse of address.
func index(a netip.AddrPort) int32 {
	b := a.Addr().As4()
	return int32(b[1])<<16 | int32(b[2])<<8 | int32(b[3])
}

// subnet returns the made-up subnet of a node.
func (f *storm) subnet(i int) netip.Prefix {
	n := 0
	if f.Subnet > 0 {
		n = i / f.Subnet
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{172, byte(n >> 8), byte(n), 0}), 24)
}

// swarmKey has the length of a pack's name.
const swarmKey = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
