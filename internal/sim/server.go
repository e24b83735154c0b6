package sim

import (
	"math/rand/v2"
	"net/netip"
	"strconv"
	"time"

	"pando/internal/netboot"
	"pando/internal/peer"
)

// wrongBytes is about what a report of wrong bytes has on the wire; the other messages are counted as they are sent.
const wrongBytes = 330

// server is a server with its tracker.
type server struct {
	id      int32
	tracker *peer.Tracker
	queue   *netboot.Queue // of the nodes that want K
	sending int            // nodes that it sends K to
	up      link
	lost    bool
	wake    time.Duration
	wakes   int32
}

func newServer(f *storm, i int) *server {
	s := &server{id: int32(i), queue: netboot.NewQueue(f.links())}
	s.up.rate = bytesPerSecond(f.ServerLink)
	s.tracker = peer.NewTracker(peer.TrackerOptions{Uplink: int64(s.up.rate), Random: rand.New(rand.NewPCG(f.Seed, uint64(i)+1<<40))})
	return s
}

// sent is the end of a transfer of a piece.
func (s *server) sent(f *storm, to *node, piece int) {
	if s.lost {
		return
	}
	s.tracker.Sent(swarmKey, to.addr, piece)
	f.step(s)
}

// wrong is a report of wrong bytes that arrived.
func (s *server) wrong(f *storm, n *node, accused netip.AddrPort) {
	if s.lost {
		return
	}
	f.count(wrongBytes)
	if s.tracker.Wrong(n.addr.Addr(), accused.Addr()) {
		f.res.Banned++
	}
}

func (f *storm) count(bytes int64) {
	f.res.Requests++
	f.res.Control += bytes
}

// joined is a join that arrived at the tracker.
func (f *storm) joined(n *node) {
	s := n.home
	if s.lost {
		f.after(f.Delay, noTracker, n.id, 0)
		return
	}
	j := peer.Join{Swarm: swarmKey, Pieces: f.Pieces, Node: n.addr, Subnet: f.subnet(int(n.id)), Place: f.place(n), Near: f.Places > 0, Have: n.swarm.Have()}
	out, ok := s.tracker.Join(f.now, j)
	f.count(peer.JoinBytes(j, out))
	if !ok {
		f.after(f.Delay, noTracker, n.id, 0)
		return
	}
	f.deliver(func() {
		n.swarm.Tracking(f.now, true)
		n.swarm.Bear(out.Late)
		for _, a := range out.Banned {
			n.swarm.Ban(a)
		}
		f.meet(n, out.Peers...)
		f.act(n)
	})
}

// place is the rack of a node.
func (f *storm) place(n *node) string {
	if f.Places == 0 {
		return ""
	}
	return "rack" + strconv.Itoa(int(n.id)%f.Places)
}

// ask sends a question to the tracker.
func (f *storm) ask(n *node, a peer.Ask) {
	a.Have = append(peer.Bitmap(nil), a.Have...)
	f.deliver(func() { f.asked(n, a) })
}

func (f *storm) asked(n *node, a peer.Ask) {
	s := n.home
	if s.lost || n.dead {
		f.after(f.Delay, noTracker, n.id, 0)
		return
	}
	q := peer.Question{Swarm: swarmKey, Node: n.addr, Size: int64(f.size()), Ask: a}
	f.count(peer.AskBytes(q))
	answer, wait, known := s.tracker.Ask(f.now, q)
	switch {
	case !known:
		f.after(f.Delay, noTracker, n.id, 0)
	case !wait:
		f.answer(n, answer)
	}
	f.step(s)
}

func (f *storm) answer(n *node, a peer.Answer) {
	f.res.Control += peer.AnswerBytes(a)
	f.deliver(func() {
		if !n.dead {
			f.watch(n, n.swarm.MeetMore(f.now, n.swarm.Answer(f.now, a)...))
			f.act(n)
		}
	})
}

// step lets the tracker answer questions that waited.
func (f *storm) step(s *server) {
	replies, at := s.tracker.Step(f.now)
	for _, r := range replies {
		f.answer(f.nodes[index(r.Node)], r.Answer)
	}
	if at > 0 && (s.wake <= f.now || at < s.wake) {
		s.wake = at
		s.wakes++
		f.at(at, trackerWake, s.id, s.wakes)
	}
}
