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
	loader       link // its firmware, which takes K in place of its link where it is slower
	home         *server
	watch        []int32       // nodes that are told what this one has
	later        []int32       // pieces that it has and has not told
	tellAt       time.Duration // when it tells them; 0: there are none
	news         []news        // that it was told and has not looked at
	coming       int           // transfers from peers
	flows        []int32       // transfers to it
	sends        []int32       // transfers from it
	wake         time.Duration
	wakes        int32 // the newest timer; older ones are void
	began        bool
	trackerKnown bool // of the tracker, or that there is none: until then it asks for no pieces
	dead         bool
	wrong        bool
	short        bool
	slow         bool
	closed       bool          // others do not reach it
	alone        bool          // nor it others
	reads        int           // piece that a read waits for, with Config.Reads
	ready        time.Duration // when the boot has thought and reads it
	admitted     bool          // it may load K
	load         uint64        // number of its transfer of K
	left         int64         // bytes of it that the server has not sent
	k, done      time.Duration

	asks    *swarm.Joiner
	sources []netip.AddrPort // of the files, those that were not asked; none: the server
	files   bool             // it has what it starts with
	reader  *swarm.DemandReads
	reading *read   // of a demand object; nil: none
	objects []bool  // loose, that it has
	looked  int     // how many of them it has read, or is reading
	parked  []int32 // transfers that wait here for what this node is getting
}

func newNode(f *storm, i int) *node {
	rate := bytesPerSecond(f.NodeLink)
	n := &node{id: int32(i), addr: f.address(i), home: f.servers[i%len(f.servers)]}
	// Who is special is spread over the numbers by the caller's seed: see storm.begin.
	n.up.rate, n.down.rate, n.loader.rate = rate, rate, bytesPerSecond(f.KRate)
	n.objects = make([]bool, f.Demand)
	n.swarm = swarm.NewFetcher(
		swarm.FetcherOptions{Self: n.addr, Pieces: f.Pieces, Random: rand.New(rand.NewPCG(f.Seed, uint64(i)+2))},
	)
	return n
}

// next asks the node what to do, and does it.
func (f *storm) act(n *node) {
	if n.dead || !n.trackerKnown {
		return
	}
	f.hear(n)
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

// read goes on with the boot, which thinks, reads a piece, and thinks again.
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

// finish notes that a node has what it booted for.
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

// meet makes a node know others: it watches what they have, and they come to know it.
func (f *storm) meet(n *node, peers ...netip.AddrPort) {
	f.watch(n, n.swarm.AddPeers(f.now, peers...))
}

func (f *storm) watch(n *node, fresh []netip.AddrPort) {
	for _, a := range fresh {
		f.after(f.Delay, watch, n.id, index(a))
	}
}

// watched is a watch that arrived at b.
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

// got is a node that has one more piece.
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

// news is that a node has a piece.
type news struct{ node, piece int32 }

// tellAll passes on what a node has and has not told. Who has as many transfers as it may have looks at it before
// it decides something again: what many were told is then looked at together, which is quicker by far.
func (f *storm) tellAll(n *node) {
	if n.tellAt > f.now {
		return // it was told meanwhile, and this is not the moment of what waits now
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
		if o.coming < peerFetches && f.hear(o) {
			f.act(o)
		}
	}
	n.later, n.tellAt = n.later[:0], 0
}

// hear looks at what a node was told, and says whether there may be something to do with it.
func (f *storm) hear(n *node) (useful bool) {
	for _, x := range n.news {
		if n.swarm.PeerGot(f.address(int(x.node)), int(x.piece)) {
			useful = true
		}
	}
	n.news = n.news[:0]
	return useful
}

// die takes a node away: it answers nothing any more.
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

// silence is how long a peer may say nothing until it is taken for gone.
const silence = 30 * time.Second
