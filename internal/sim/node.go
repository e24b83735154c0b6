package sim

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"pando/internal/swarm"
)

// node is a machine that boots.
type node struct {
	id           int32
	addr         netip.AddrPort
	swarm        *swarm.Fetcher
	places       swarm.UploadSlots
	up           link
	down         link
	loader       link // limits the rate at which firmware loads K
	home         *server
	watch        []int32       // nodes that this one tells its pieces
	later        []int32       // new pieces that it has not told yet
	tellAt       time.Duration // when it tells them; 0: no news
	news         []news        // received news that it has not read yet
	coming       int           // transfers from peers
	flows        []int32       // transfers to it
	sends        []int32       // transfers from it
	wake         time.Duration
	wakes        int32 // the newest timer; older ones are void
	began        bool
	trackerKnown bool // the tracker has answered, or there is none: before that it requests no pieces
	dead         bool
	wrong        bool
	short        bool
	slow         bool
	closed       bool          // no other node can reach it
	alone        bool          // it can reach no other node
	reads        int           // piece that the boot reads next, with Config.Reads
	ready        time.Duration // when the boot has computed and reads that piece
	admitted     bool          // it may load K
	load         uint64        // netboot's number of its transfer of K
	kFrom        *node         // who sends it K; nil: the server
	left         int64         // bytes of K that the server has not sent
	k, done      time.Duration

	asks    *swarm.Joiner
	sources []netip.AddrPort // bootstrap peers not asked yet; none: the server
	files   bool             // it has the bootstrap files
	reader  *swarm.DemandReads
	reading *read   // the running read of a demand object, or nil
	objects []bool  // demand objects that it has
	looked  int     // number of demand objects that it has read or is reading
	parked  []int32 // transfers that wait here for an object that this node fetches
}

func newNode(f *storm, i int) *node {
	rate := bytesPerSecond(f.NodeLink)
	n := &node{id: int32(i), addr: f.address(i), home: f.servers[i%len(f.servers)]}
	// storm.begin chooses the faulty nodes with the caller's seed.
	n.up.rate, n.down.rate, n.loader.rate = rate, rate, bytesPerSecond(f.KRate)
	n.objects = make([]bool, f.Demand)
	n.swarm = swarm.NewFetcher(
		swarm.FetcherOptions{Self: n.addr, Pieces: f.Pieces, Random: rand.New(rand.NewPCG(f.Seed, uint64(i)+2))},
	)
	return n
}

// act carries out what the node's Fetcher decides.
func (f *storm) act(n *node) {
	if n.dead || !n.trackerKnown {
		return
	}
	f.readNews(n)
	f.readDemand(n)
	if f.Reads {
		f.read(n)
	}
	step := n.swarm.Next(f.now)
	for _, c := range step.Cancel {
		f.cancel(n, c)
	}
	for _, x := range step.Fetch {
		f.fetch(n, x)
	}
	if step.Request != nil {
		f.ask(n, *step.Request)
	}
	for _, a := range step.Corrupt {
		n.home.wrong(f, n, a)
	}
	for _, a := range step.Probe {
		if o := f.nodes[index(a)]; o.dead || o.closed || n.alone {
			f.at(f.now+n.swarm.ProbeTimeout(), unreached, n.id, o.id)
		}
	}
	if step.Join && !f.Unicast {
		f.after(f.Delay, join, n.id, 0)
	}
	if step.Wake > 0 && (n.wake <= f.now || step.Wake < n.wake) {
		n.wake = step.Wake
		n.wakes++
		f.at(step.Wake, wake, n.id, n.wakes)
	}
}

// read continues a boot, which reads a piece, computes, and reads the next.
func (f *storm) read(n *node) {
	for n.reads < f.Pieces && f.now >= n.ready && n.reading == nil {
		if !n.swarm.Have().Has(n.reads) {
			n.swarm.Urgent(f.now, n.reads)
			return
		}
		n.reads++
		f.readDemand(n)
		if f.Think > 0 {
			n.ready = f.now + f.Think/time.Duration(f.Pieces)
			f.at(n.ready, thought, n.id, 0)
		}
	}
	f.finish(n)
}

// finish notes that a node is done, if it has read and fetched everything.
func (f *storm) finish(n *node) {
	if n.done > 0 || n.swarm.Missing() > 0 || n.reading != nil || n.looked < f.Demand ||
		f.Think > 0 && n.reads < f.Pieces {
		return
	}
	n.done = f.now
	if !n.slow {
		f.left--
	}
}

// meet makes nodes peers: n watches their pieces, and they get to know n.
func (f *storm) meet(n *node, peers ...netip.AddrPort) {
	f.watch(n, n.swarm.AddPeers(f.now, peers...))
}

func (f *storm) watch(n *node, fresh []netip.AddrPort) {
	for _, a := range fresh {
		f.after(f.Delay, watch, n.id, index(a))
	}
}

// watched is a watch request of a that arrives at b.
func (f *storm) watched(a, b *node) {
	if b.dead || b.closed || a.alone {
		f.after(f.Delay, unreached, a.id, b.id)
		return
	}
	if len(b.watch) >= swarm.MaxWatchers {
		f.after(f.Delay, gone, a.id, b.id)
		return
	}
	b.watch = append(b.watch, a.id)
	f.after(f.Delay, haves, a.id, b.id)
	f.meet(b, a.addr)
}

// got notes that a node has one more piece.
func (f *storm) got(n *node, piece int) {
	if len(n.watch) > 0 {
		n.later = append(n.later, int32(piece))
		if at := f.now + f.Delay + n.swarm.HaveDelay(piece); n.tellAt == 0 || at < n.tellAt {
			n.tellAt = at
			f.at(at, tell, n.id, 0)
		}
	}
	f.finish(n)
}

// news tells that a node has a piece.
type news struct{ node, piece int32 }

// tellAll sends a node's news to its watchers. A watcher with all transfers in use reads the news only before its next
// decision. Reading many at once makes the simulation much faster.
func (f *storm) tellAll(n *node) {
	if n.tellAt > f.now {
		return // the news was sent meanwhile, and the present news waits for its own moment
	}
	for _, w := range n.watch {
		o := f.nodes[w]
		if o.dead || o.done > 0 {
			continue
		}
		before := len(o.news)
		for _, p := range n.later {
			if !o.swarm.Have().Has(int(p)) {
				o.news = append(o.news, news{n.id, p})
			}
		}
		if len(o.news) == before {
			continue
		}
		f.res.Haves++
		if o.coming < peerFetches && f.readNews(o) {
			f.act(o)
		}
	}
	n.later, n.tellAt = n.later[:0], 0
}

// readNews takes the news of a node, and tells whether the node may have something to do.
func (f *storm) readNews(n *node) (useful bool) {
	for _, x := range n.news {
		if n.swarm.PeerGot(f.address(int(x.node)), int(x.piece)) {
			useful = true
		}
	}
	n.news = n.news[:0]
	return useful
}

// die kills a node. It answers nothing any more.
func (f *storm) die(n *node) {
	if n.dead {
		return
	}
	n.dead = true
	if n.done == 0 && !n.slow {
		f.left--
	}
	for len(n.parked) > 0 {
		id := n.parked[0]
		n.parked = n.parked[1:]
		f.refuse(id, swarm.Broken)
	}
	for len(n.flows) > 0 {
		f.drop(n.flows[0])
	}
	for len(n.sends) > 0 {
		id := n.sends[0]
		x := f.flows[id]
		f.drop(id)
		if !f.Faults.Silent {
			f.failed(f.nodes[x.to], x, swarm.Broken)
		}
	}
	noticed := f.Delay
	if f.Faults.Silent {
		noticed = silence
	}
	for _, w := range n.watch {
		f.at(f.now+noticed, gone, w, n.id)
	}
}

// silence is the time after which a silent peer counts as gone.
const silence = 30 * time.Second
