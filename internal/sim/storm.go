package sim

import (
	"slices"
	"time"

	"pando/internal/swarm"
)

// The kinds of events, and their arguments.
const (
	start         kind = iota // node: it is switched on, or continues after K
	join                      // node: its announcement arrives at the tracker
	noTracker                 // node: it learns that no tracker answers
	call                      // number of a deferred call
	watch                     // node, node: the first watches the second
	haves                     // node, node: the first learns all pieces of the second
	gone                      // node, node: the first learns that the second is gone
	unreached                 // node, node: the first cannot reach the second
	tell                      // node: its watchers get its news
	wake                      // node, number of the timer
	trackerWake               // server, number of the timer
	startWake                 // node: it may send its join request again
	demandWake                // node, number of the object: the next stage of the read begins
	bootstrapLate             // flow, node: timeout of a bootstrap peer
	request                   // flow: its request arrives
	refused                   // flow, failure: the refusal arrives
	sent                      // flow, bytes that left the sender
	arrived                   // flow, bytes that reached the receiver
	thought                   // node: its boot has computed
	script                    // node: its firmware asks for its script
	kernel                    // node: its firmware asks for its kernel
	kill                      // nothing
	lose                      // nothing
)

// shortAlone is the time in which only the nodes that break off run, so that they get the first copies.
const shortAlone = 200 * time.Millisecond

// begin chooses the faulty nodes and makes the first events.
func (f *storm) begin() {
	order := f.rand.Perm(f.Nodes)
	late := order[:f.Faults.Delayed]
	slow := order[f.Faults.Delayed : f.Faults.Delayed+f.Faults.Slow]
	wrong := order[f.Faults.Delayed+f.Faults.Slow:][:f.Faults.Wrong]
	for _, i := range slow {
		n := f.nodes[i]
		n.slow, n.up.rate, n.down.rate = true, n.up.rate/10, n.down.rate/10
		f.left--
	}
	for _, i := range wrong {
		f.nodes[i].wrong = true
	}
	short := order[f.Faults.Delayed+f.Faults.Slow+f.Faults.Wrong:][:f.Faults.Short]
	for _, i := range short {
		f.nodes[i].short = true
	}
	closed := order[f.Faults.Delayed+f.Faults.Slow+f.Faults.Wrong+f.Faults.Short:]
	for x, i := range closed[:f.Faults.Closed+f.Faults.Alone] {
		f.nodes[i].closed, f.nodes[i].alone = true, x >= f.Faults.Closed
	}
	for _, i := range order {
		var at time.Duration
		switch {
		case slices.Contains(late, i):
			at = f.Faults.DelayedBy
		case len(short) > 0 && !f.nodes[i].short:
			at = shortAlone
		}
		if f.Spread > 0 {
			at += time.Duration(f.rand.Int64N(int64(f.Spread)))
		}
		f.at(at, start, int32(i), 0)
	}
	if f.Faults.Kill > 0 {
		f.at(f.Faults.KillAt, kill, 0, 0)
	}
	if f.Faults.Tracker > 0 {
		f.at(f.Faults.Tracker, lose, 0, 0)
	}
}

// deliver calls do after the delay of the network.
func (f *storm) deliver(do func()) {
	id := int32(len(f.calls))
	if n := len(f.freeCalls); n > 0 {
		id = f.freeCalls[n-1]
		f.freeCalls = f.freeCalls[:n-1]
		f.calls[id] = do
	} else {
		f.calls = append(f.calls, do)
	}
	f.after(f.Delay, call, id, 0)
}

func (f *storm) handle(e event) {
	switch e.kind {
	case start:
		f.start(f.nodes[e.a])
	case join:
		f.joined(f.nodes[e.a])
	case noTracker:
		n := f.nodes[e.a]
		n.trackerKnown = true
		n.swarm.TrackerLost(f.now)
		f.act(n)
	case call:
		do := f.calls[e.a]
		f.calls[e.a] = nil
		f.freeCalls = append(f.freeCalls, e.a)
		do()
	case watch:
		f.watched(f.nodes[e.a], f.nodes[e.b])
	case haves:
		a, b := f.nodes[e.a], f.nodes[e.b]
		a.swarm.PeerHas(b.addr, b.swarm.Have())
		f.act(a)
	case gone:
		a := f.nodes[e.a]
		a.swarm.PeerLeft(f.nodes[e.b].addr)
		f.act(a)
	case unreached:
		a := f.nodes[e.a]
		a.swarm.PeerUnreachable(f.now, f.nodes[e.b].addr)
		f.act(a)
	case tell:
		f.tellAll(f.nodes[e.a])
	case wake:
		if n := f.nodes[e.a]; n.wakes == e.b {
			f.act(n)
		}
	case trackerWake:
		if s := f.servers[e.a]; s.wakes == e.b && !s.lost {
			f.step(s)
		}
	case startWake:
		f.nextStart(f.nodes[e.a])
	case demandWake:
		if n := f.nodes[e.a]; n.reading != nil && n.reading.object == int(e.b) {
			f.nextDemand(n)
		}
	case bootstrapLate:
		f.bootstrapTimeout(e.a, e.b)
	case request:
		f.requested(e.a)
	case refused:
		f.refuse(e.a, swarm.Failure(e.b))
	case sent:
		f.passed(e.a, e.b)
	case arrived:
		f.landed(e.a, e.b)
	case thought:
		f.act(f.nodes[e.a])
	case script:
		f.wantK(f.nodes[e.a])
	case kernel:
		f.loadK(f.nodes[e.a])
	case kill:
		f.killSome()
	case lose:
		for _, s := range f.servers {
			f.loseTracker(s)
		}
	}
}

func (f *storm) start(n *node) {
	if n.began {
		return
	}
	if f.K > 0 && n.k == 0 {
		f.wantK(n)
		return
	}
	n.began = true
	if f.Passed {
		f.pass(n)
	}
	if f.Files > 0 {
		f.startFiles(n)
		return
	}
	f.enter(n)
}

// enter begins the boot of a node that has its bootstrap files.
func (f *storm) enter(n *node) {
	n.files = true
	n.reader = swarm.NewDemandReads(
		swarm.DemandOptions{Bootstrap: n.sources, AnnounceDelay: n.swarm.AnnounceDelay, Banned: n.swarm.Banned},
	)
	if f.Unicast {
		n.trackerKnown = true
		n.swarm.SetTracker(f.now, false)
		f.act(n)
		return
	}
	f.readDemand(n)
	f.after(f.Delay, join, n.id, 0)
}

// killSome kills a random share of the nodes.
func (f *storm) killSome() {
	for _, i := range f.rand.Perm(f.Nodes)[:int(f.Faults.Kill*float64(f.Nodes))] {
		f.die(f.nodes[i])
	}
}

func (f *storm) result() Result {
	r := f.res
	var times []time.Duration
	for _, n := range f.nodes {
		r.LastK = max(r.LastK, n.k)
		switch {
		case n.slow:
			r.SlowLast = max(r.SlowLast, n.done)
		case n.dead:
		case n.done == 0:
			r.Unfinished++
		default:
			times = append(times, n.done)
		}
	}
	slices.Sort(times)
	if len(times) > 0 {
		r.Last, r.Median = times[len(times)-1], times[len(times)/2]
	}
	for _, s := range f.servers {
		r.ServerBytes += s.up.bytes
	}
	r.KBytes = f.kSent
	r.ServerBytes -= f.kSent + r.FileBytes
	return r
}
