package sim

import (
	"maps"
	"slices"
	"time"

	"pando/internal/chunk"
	"pando/internal/swarm"
)

// packID is the pack of swarmKey.
var packID, _ = chunk.ParseID(swarmKey)

// standing is a boot that stands in line at a server.
type standing struct {
	node  *node
	start swarm.JoinRequest
	tries swarm.JoinAttempt
}

// startFiles has a node get what its boot starts with.
func (f *storm) startFiles(n *node) {
	if f.Unicast {
		f.nextFiles(n)
		return
	}
	n.asks = swarm.NewJoiner(f.now, 1)
	f.nextStart(n)
}

// nextStart asks the tracker, if it is time, who has that.
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

// startAsked is a question of a boot that starts, at the tracker.
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
	s.starts[s.tracker.QueueJoin(f.now, n.addr.Addr(), start, x.Timeout)] = standing{n, start, x}
	f.step(s)
}

// loseTracker takes away what a tracker knows. Who stands in line there is told, or turns to others: the connection
// is gone. What the server sends goes on.
func (f *storm) loseTracker(s *server) {
	s.lost = true
	for _, x := range slices.Sorted(maps.Keys(s.starts)) {
		n := s.starts[x].node
		f.deliver(func() { n.asks.Failed(); f.started(n) })
	}
	clear(s.starts)
	for _, x := range slices.Sorted(maps.Keys(s.bodies)) {
		id := s.bodies[x]
		delete(s.lines, id)
		f.admit(id)
	}
	clear(s.bodies)
}

// stepLines answers those that stand in line at a server whose turn it is.
func (f *storm) stepLines(s *server) (wake time.Duration) {
	starts, wake := s.tracker.StepJoins(f.now)
	for _, r := range starts {
		f.startAnswered(s.starts[r.Ticket], r.JoinReply)
		delete(s.starts, r.Ticket)
	}
	bodies, at := s.tracker.StepObjects(f.now)
	for _, x := range bodies {
		id := s.bodies[x]
		delete(s.bodies, x)
		delete(s.lines, id)
		f.admit(id)
	}
	if at > 0 && (wake == 0 || at < wake) {
		wake = at
	}
	return wake
}

func (f *storm) startAnswered(b standing, a swarm.JoinReply) {
	f.res.Starts++
	f.count(swarm.JoinBytes(b.start, b.tries.Timeout, a))
	f.deliver(func() {
		b.node.asks.Answered(f.now, b.tries.Tracker, a)
		f.started(b.node)
	})
}

// started goes on with a start after word of the tracker.
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

// nextFiles gets the files from the first that is left of those who have them, or from the server. They are one
// transfer here.
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

// filesCame is a node that has what it starts with. Who gave it that is asked for what it reads first as well.
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

// filesFailed has a node ask the next one.
func (f *storm) filesFailed(n *node) {
	if n.dead {
		return
	}
	if len(n.sources) > 0 {
		n.sources = n.sources[1:]
	}
	f.nextFiles(n)
}
