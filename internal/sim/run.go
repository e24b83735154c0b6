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

// Config describes a storm. Rates are bits a second as links are called; sizes are bytes.
type Config struct {
	Nodes      int
	Servers    int   // default 1
	NodeLink   int64 // bits a second
	ServerLink int64 // bits a second, of each server

	Pieces int           // of the boot pack
	W      int64         // bytes of all of them
	K      int64         // bytes that the firmware loads before; 0: the storm begins after it
	KRate  int64         // bits a second of them that firmware takes; 0: as many as a node's link
	Start  time.Duration // from K being there to asking for the boot pack

	Files int64 // bytes of manifest, signature and map, which a boot starts with; 0: it has them
	// objects outside of the pack that a boot reads, the first of them before all else, such as the index
	Demand     int
	DemandSize int64 // bytes of each

	Unicast bool // no peers: everything from the servers
	Reads   bool // each node always waits for the first piece that it misses, as a boot does that the network holds up
	// that each boot spends between its reads, in all; a node is done when it has read the last piece. For Reads
	Think  time.Duration
	Subnet int           // nodes in a subnet; 0: all in one
	Places int           // racks, which nodes are in by turns and keep to; 0: nodes share with all
	Delay  time.Duration // one way; default 0.1 ms
	Seed   uint64
	Spread time.Duration // nodes begin by chance within so long; 0: all at once

	Faults Faults
}

// Faults are what goes wrong.
type Faults struct {
	Kill      float64       // share of the nodes that die at KillAt, never to come back
	KillAt    time.Duration // after the storm began
	Silent    bool          // they lose their power: nobody hears of it
	Tracker   time.Duration // the trackers are lost at this moment; 0: never
	Slow      int           // nodes with a tenth of the rate
	Wrong     int           // nodes that send wrong bytes
	Short     int           // nodes that come first, and break off all that they send
	Delayed   int           // nodes that start only after DelayedBy
	DelayedBy time.Duration
	Closed    int // nodes that others cannot reach
	Alone     int // nodes that others cannot reach, and that reach no other
}

// Result is what happened.
type Result struct {
	Last, Median time.Duration // until a node had its whole boot set; of nodes that live and are not slow
	LastK        time.Duration // until the last node had K
	SlowLast     time.Duration // of the nodes with a slow link
	Unfinished   int           // nodes that live and never got all

	ServerBytes int64 // root bytes that servers sent
	KBytes      int64 // bytes of K that servers sent
	KAtOnce     int   // nodes that a server sent K to at the same moment, at most
	PeerBytes   int64
	Pieces      int64 // that servers sent whole, each for a request
	FileBytes   int64 // of what boots start with that servers sent
	Requests    int64 // messages to the trackers
	Starts      int64 // those of boots that start
	Finds       int64 // and those for demand objects
	Control     int64 // bytes that all of them and their answers had, with HTTP's headers
	Haves       int64 // times that a node was told what another has
	Busy        int64 // uploads that a peer refused
	Wasted      int64 // bytes of transfers that brought nothing
	Banned      int   // addresses banned by some tracker
	Events      int64
}

// storm is one that runs.
type storm struct {
	Config
	clock
	rand      *rand.Rand
	nodes     []*node
	servers   []*server
	flows     []flow
	free      []int32 // flows to be used again
	quantum   int     // bytes that pass a link at a time
	left      int     // nodes that are not done
	kSent     int64
	pieces    []chunk.ID // of the pack
	objects   []chunk.ID // loose
	calls     []func()   // that wait for the network
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
		return errors.New("a link needs a rate")
	case c.Pieces <= 0 || c.W < int64(c.Pieces):
		return fmt.Errorf("%d bytes in %d pieces: no such boot set", c.W, c.Pieces)
	case c.Files < 0 || c.Demand < 0 || c.Demand > 0 && c.DemandSize <= 0:
		return errors.New("a boot starts with bytes, and reads objects of some bytes")
	case c.KRate < 0:
		return errors.New("firmware needs a rate")
	case c.Think < 0 || c.Think > 0 && !c.Reads:
		return errors.New("only a boot that reads thinks")
	case c.Faults.Delayed+c.Faults.Slow+c.Faults.Wrong+c.Faults.Short+c.Faults.Closed+c.Faults.Alone > c.Nodes,
		c.Faults.Kill < 0, c.Faults.Kill > 1:
		return errors.New("more faults than nodes")
	}
	return nil
}

// peerFetches is how many transfers from peers a node of package swarm has at a time.
const peerFetches = 6

// manyNodes is from how many nodes on transfers are simulated in coarser parts, to be done in a minute.
const manyNodes = 2000

// forever is when a storm is given up: nodes that live give signs of it without end.
const forever = 24 * time.Hour

// Run runs a storm to its end.
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

// size is the bytes of a piece.
func (f *storm) size() int { return int(f.W / int64(f.Pieces)) }

// bytesPerSecond is the goodput of a link.
func bytesPerSecond(bits int64) float64 { return float64(bits) / 8 * Goodput }

// Unit is W/B: the time that a node alone needs for its boot set on a link that is only its own.
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

// subnet is that of a node: a made-up one, by its number.
func (f *storm) subnet(i int) netip.Prefix {
	n := 0
	if f.Subnet > 0 {
		n = i / f.Subnet
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{172, byte(n >> 8), byte(n), 0}), 24)
}

// swarmKey is as long as the name of a pack is.
const swarmKey = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
