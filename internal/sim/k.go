package sim

import (
	"encoding/binary"
	"time"

	"pando/internal/fleet"
	"pando/internal/netboot"
)

// kQuantum is how many bytes of K pass a link at a time.
const kQuantum = 256 << 10

// links are what a server believes of its own link and of its nodes'.
func (c Config) links() netboot.Links {
	return netboot.Links{Server: int64(bytesPerSecond(c.ServerLink)), Node: int64(bytesPerSecond(c.NodeLink))}
}

// Admitted is how many nodes a server sends K to at a time.
func (c Config) Admitted() int { return c.links().Slots() }

// moment is virtual time as the queue takes it.
func (f *storm) moment() time.Time { return time.Unix(0, 0).Add(f.now) }

func (n *node) mac() fleet.MAC {
	var m fleet.MAC
	binary.BigEndian.PutUint32(m[2:], uint32(n.id))
	m[0] = 2 // locally administered
	return m
}

// wantK is firmware that asks for its script: it may load K, or sleeps and asks again.
func (f *storm) wantK(n *node) {
	s := n.home
	turn := s.queue.Ask(f.moment(), n.mac())
	if turn.Place > 0 {
		f.at(f.now+turn.Sleep, start, n.id, 0)
		return
	}
	n.load = s.queue.Begin(f.moment(), n.mac())
	s.busy(f)
	id := f.newFlow(flow{to: n.id, from: -1 - s.id, unsent: int(f.K), size: int(f.K), quantum: kQuantum, k: true, live: true, admitted: true})
	n.flows = append(n.flows, id)
	f.kSent += f.K
	f.push(id)
}

// kPassed is a part of K that left the server.
func (f *storm) kPassed(n *node) { n.home.queue.Heard(f.moment(), n.mac(), n.load) }

// kDone is a node that has K, which makes room for the next one that asks.
func (f *storm) kDone(n *node) {
	n.k = f.now
	f.at(f.now+f.Start, start, n.id, 0)
	n.home.queue.End(f.moment(), n.mac(), n.load)
	n.home.busy(f)
}

// busy tells the tracker whether K fills the uplink: half of the slots do.
func (s *server) busy(f *storm) {
	now := s.queue.State(f.moment())
	s.tracker.Busy(now.Loading > now.Slots/2)
}
