package sim

import (
	"math/rand/v2"
	"net/netip"
	"strconv"
	"time"

	"pando/internal/chunk"
	"pando/internal/netboot"
	"pando/internal/swarm"
)

// server is a server with its tracker.
type server struct {
	id      int32
	tracker *swarm.Tracker
	queue   *netboot.Queue               // nodes that want K
	passing *netboot.Sources             // nodes that serve K
	sending int                          // number of nodes that it sends K to
	joins   map[swarm.Ticket]waitingJoin // join requests held open
	queued  map[swarm.Ticket]int32       // queued transfers without a grant
	tickets map[int32]swarm.Ticket       // tickets of the queued transfers
	up      link
	lost    bool
	wake    time.Duration
	wakes   int32
}

func newServer(f *storm, i int) *server {
	s := &server{
		id:      int32(i),
		queue:   netboot.NewQueue(f.links()),
		passing: netboot.NewSources(),
		joins:   map[swarm.Ticket]waitingJoin{},
		queued:  map[swarm.Ticket]int32{},
		tickets: map[int32]swarm.Ticket{},
	}
	s.up.rate = bytesPerSecond(f.ServerLink)
	s.tracker = swarm.NewTracker(
		swarm.TrackerOptions{Uplink: int64(s.up.rate), Random: rand.New(rand.NewPCG(f.Seed, uint64(i)+1<<40))},
	)
	return s
}

// askServer is an object request that arrives at a server. An ungranted object may have to wait in the queue.
func (f *storm) askServer(id int32) {
	x := &f.flows[id]
	s := f.servers[-1-x.from]
	if s.lost || x.what == files {
		f.admit(id)
		return
	}
	ticket, wait := s.tracker.Admit(
		f.now,
		swarm.ObjectRequest{Node: f.nodes[x.to].addr.Addr(), Object: f.object(x).Short(), Size: int64(x.size)},
	)
	if !wait {
		f.admit(id)
		return
	}
	s.queued[ticket], s.tickets[id] = id, ticket
	f.step(s)
}

// isQueued reports whether a transfer waits in a server's object queue.
func (f *storm) isQueued(id int32) bool {
	from := f.flows[id].from
	return from < 0 && f.servers[-1-from].tickets[id] > 0
}

// object returns the object that a transfer carries; for bootstrap files, the map.
func (f *storm) object(x *flow) chunk.ID {
	switch x.what {
	case files:
		return packID
	case demand:
		return f.objects[x.demand.read.object]
	}
	return f.pieces[x.fetch.Piece]
}

// sent ends a transfer, or its wait in the queue.
func (s *server) sent(f *storm, to *node, id int32) {
	x := &f.flows[id]
	switch ticket := s.tickets[id]; {
	case s.lost || x.what == kernelSet:
		return
	case ticket > 0:
		delete(s.queued, ticket)
		delete(s.tickets, id)
		s.tracker.CancelObject(f.now, ticket)
	default:
		s.tracker.ObjectSent(to.addr.Addr(), f.object(x).Short())
	}
	f.step(s)
}

// wrong is a report of wrong bytes that arrives.
func (s *server) wrong(f *storm, n *node, accused netip.AddrPort) {
	if s.lost {
		return
	}
	f.count(swarm.CorruptBytes(accused))
	if s.tracker.ReportCorrupt(n.addr.Addr(), accused.Addr()) {
		f.res.Banned++
	}
}

func (f *storm) count(bytes int64) {
	f.res.Requests++
	f.res.Control += bytes
}

// joined is an announcement that arrives at the tracker.
func (f *storm) joined(n *node) {
	s := n.home
	if s.lost {
		f.after(f.Delay, noTracker, n.id, 0)
		return
	}
	j := swarm.Announcement{
		Swarm:     swarmKey,
		Pieces:    f.Pieces,
		Node:      n.addr,
		Subnet:    f.subnet(int(n.id)),
		Location:  f.place(n),
		LocalOnly: f.Places > 0,
		Have:      n.swarm.Have(),
	}
	out, ok := s.tracker.Announce(f.now, j)
	f.count(swarm.AnnounceBytes(j, out))
	if !ok {
		f.after(f.Delay, noTracker, n.id, 0)
		return
	}
	f.deliver(func() {
		n.trackerKnown = true
		n.swarm.SetTracker(f.now, true)
		n.swarm.SetAnnounceDelay(out.AnnounceDelay)
		for _, a := range out.Banned {
			n.swarm.Ban(a)
		}
		f.meet(n, out.Peers...)
		f.act(n)
	})
}

// place returns the rack of a node.
func (f *storm) place(n *node) string {
	if f.Places == 0 {
		return ""
	}
	return "rack" + strconv.Itoa(int(n.id)%f.Places)
}

// ask sends a piece request to the tracker.
func (f *storm) ask(n *node, a swarm.Request) {
	a.Have = append(swarm.Bitmap(nil), a.Have...)
	f.deliver(func() { f.asked(n, a) })
}

func (f *storm) asked(n *node, a swarm.Request) {
	s := n.home
	if s.lost || n.dead {
		f.after(f.Delay, noTracker, n.id, 0)
		return
	}
	q := swarm.PieceRequest{Swarm: swarmKey, Node: n.addr, Size: int64(f.size()), Request: a}
	f.count(swarm.RequestBytes(q))
	answer, wait, known := s.tracker.Ask(f.now, q)
	switch {
	case !known:
		f.after(f.Delay, noTracker, n.id, 0)
	case !wait:
		f.answer(s, n, answer)
	}
	f.step(s)
}

func (f *storm) answer(s *server, n *node, a swarm.Answer) {
	s.tracker.NoteGrants(f.now, swarmKey, n.addr, a.Grant, f.pieces)
	f.res.Control += swarm.AnswerBytes(a)
	f.deliver(func() {
		if !n.dead {
			f.meet(n, n.swarm.Answered(f.now, a)...)
			f.act(n)
		}
	})
}

// step sends the answers of the tracker that are due.
func (f *storm) step(s *server) {
	replies, at := s.tracker.Step(f.now)
	for _, r := range replies {
		f.answer(s, f.nodes[index(r.Node)], r.Answer)
	}
	if due := f.stepQueues(s); due > 0 && (at == 0 || due < at) {
		at = due
	}
	if at > 0 && (s.wake <= f.now || at < s.wake) {
		s.wake = at
		s.wakes++
		f.at(at, trackerWake, s.id, s.wakes)
	}
}
