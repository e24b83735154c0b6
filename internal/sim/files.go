package sim

import (
	"maps"
	"slices"
	"time"

	"pando/internal/chunk"
	"pando/internal/swarm"
)

// packID is the object of swarmKey.
var packID, _ = chunk.ParseID(swarmKey)

// waitingJoin is a join request in a server's queue.
type waitingJoin struct {
	node  *node
	start swarm.JoinRequest
	tries swarm.JoinAttempt
}

// startFiles begins the fetch of a node's bootstrap files.
func (f *storm) startFiles(n *node) {
	if f.Unicast {
		f.nextFiles(n)
		return
	}
	n.asks = swarm.NewJoiner(f.now, 1)
	f.nextStart(n)
}

// nextStart sends a join request to the tracker, if one is due.
func (f *storm) nextStart(n *node) {
	if n.dead || n.files {
		return
	}
	tries, wake := n.asks.Next(f.now)
	for _, x := range tries {
		f.deliver(func() { f.startAsked(n, x) })
	}
	if wake > 0 {
		f.at(wake, startWake, n.id, 0)
	}
}

// startAsked is a join request that arrives at the tracker.
func (f *storm) startAsked(n *node, x swarm.JoinAttempt) {
	s := n.home
	if s.lost {
		f.deliver(func() { n.asks.Failed(); f.started(n) })
		return
	}
	start := swarm.JoinRequest{
		Swarm:     swarmKey,
		Size:      f.Files,
		Subnet:    f.subnet(int(n.id)),
		Location:  f.place(n),
		LocalOnly: f.Places > 0,
	}
	s.joins[s.tracker.QueueJoin(f.now, n.addr.Addr(), start, x.Timeout)] = waitingJoin{n, start, x}
	f.step(s)
}

// loseTracker removes a server's tracker. Nodes with queued join requests see a failure. Queued object requests are
// sent, because the server still works.
func (f *storm) loseTracker(s *server) {
	s.lost = true
	for _, x := range slices.Sorted(maps.Keys(s.joins)) {
		n := s.joins[x].node
		f.deliver(func() { n.asks.Failed(); f.started(n) })
	}
	clear(s.joins)
	for _, x := range slices.Sorted(maps.Keys(s.queued)) {
		id := s.queued[x]
		delete(s.tickets, id)
		f.admit(id)
	}
	clear(s.queued)
}

// stepQueues answers the queued requests of a server that are due.
func (f *storm) stepQueues(s *server) (wake time.Duration) {
	starts, wake := s.tracker.StepJoins(f.now)
	for _, r := range starts {
		f.startAnswered(s.joins[r.Ticket], r.JoinReply)
		delete(s.joins, r.Ticket)
	}
	queued, at := s.tracker.StepObjects(f.now)
	for _, x := range queued {
		id := s.queued[x]
		delete(s.queued, x)
		delete(s.tickets, id)
		f.admit(id)
	}
	if at > 0 && (wake == 0 || at < wake) {
		wake = at
	}
	return wake
}

func (f *storm) startAnswered(b waitingJoin, a swarm.JoinReply) {
	f.res.Starts++
	f.count(swarm.JoinBytes(b.start, b.tries.Timeout, a))
	f.deliver(func() {
		b.node.asks.Answered(f.now, b.tries.Tracker, a)
		f.started(b.node)
	})
}

// started continues a node's join after a reply of the tracker.
func (f *storm) started(n *node) {
	h, over := n.asks.Result()
	if n.dead || n.files {
		return
	}
	if !over {
		f.nextStart(n)
		return
	}
	n.swarm.SetAnnounceDelay(h.AnnounceDelay)
	n.sources = h.Peers
	f.nextFiles(n)
}

// nextFiles fetches the bootstrap files from the next source that the tracker named, or from the server. The files are
// one transfer here.
func (f *storm) nextFiles(n *node) {
	from := int32(-1) - n.home.id
	if len(n.sources) > 0 {
		from = index(n.sources[0])
	}
	id := f.newFlow(
		flow{
			what:    files,
			to:      n.id,
			from:    from,
			unsent:  int(f.Files),
			size:    int(f.Files),
			quantum: f.quantum,
			live:    true,
		},
	)
	n.flows = append(n.flows, id)
	f.after(f.Delay, request, id, 0)
}

// filesCame handles bootstrap files that have arrived. The sender is asked for the first demand objects too.
func (f *storm) filesCame(n *node, x flow) {
	switch {
	case x.from < 0:
		f.res.FileBytes += f.Files
	case f.nodes[x.from].wrong:
		f.res.Wasted += f.Files
		n.home.wrong(f, n, f.nodes[x.from].addr)
		f.filesFailed(n)
		return
	case f.nodes[x.from].short:
		f.res.Wasted += f.Files
		f.filesFailed(n)
		return
	default:
		f.res.PeerBytes += f.Files
	}
	f.enter(n)
}

// filesFailed makes a node ask the next source.
func (f *storm) filesFailed(n *node) {
	if n.dead {
		return
	}
	if len(n.sources) > 0 {
		n.sources = n.sources[1:]
	}
	f.nextFiles(n)
}
