package sim

import (
	"encoding/binary"
	"time"

	"pando/internal/fleet"
	"pando/internal/netboot"
)

// kQuantum is how many bytes of K pass a link at a time.
const kQuantum = 256 << 10

// links returns the rates that a server assumes for its link and the nodes' links.
func (c Config) links() netboot.Links {
	return netboot.Links{Server: int64(bytesPerSecond(c.ServerLink)), Node: int64(bytesPerSecond(c.NodeLink)),
		Passed: c.Passed}
}

// Admitted returns to how many nodes a server sends K at a time, if firmware uses the full rate of its link.
func (c Config) Admitted() int { return c.links().Slots() }

// moment returns the virtual time for package netboot.
func (f *storm) moment() time.Time { return time.Unix(0, 0).Add(f.now) }

func (n *node) mac() fleet.MAC {
	var m fleet.MAC
	binary.BigEndian.PutUint32(m[2:], uint32(n.id))
	m[0] = 2 // locally administered
	return m
}

// Firmware is the time from a node's script to the first byte of its kernel, in which it connects and sends the
// request. The node has its slot meanwhile.
const Firmware = 50 * time.Millisecond

// wantK is a node's request for its boot script. The node is admitted to K, its request is held open, or it sleeps and
// asks again.
func (f *storm) wantK(n *node) {
	if n.admitted || n.dead {
		return
	}
	s := n.home
	if f.Passed && !s.queue.HasSlot(n.mac()) && f.toSource(n) {
		return
	}
	admit := s.queue.Request(f.moment(), n.mac())
	if f.Passed {
		admit.Hold = passedHold
	}
	switch {
	case admit.Place == 0:
		f.admitNode(n)
	case admit.Hold > 0:
		s.queue.Hold(f.moment(), n.mac(), admit.Hold)
		f.at(f.now+admit.Hold, script, n.id, 0)
		s.call(f)
	default:
		f.at(f.now+admit.Sleep, script, n.id, 0)
	}
}

// KernelStart is about how long a machine takes from the last byte of its initramfs until it serves kernel and
// initramfs to others: its kernel starts, and it attaches its root.
const KernelStart = 3 * time.Second

// passedHold is how long the request of a node is held open that may load from other nodes, as package admission does.
const passedHold = 10 * time.Second

// kObjects names K in a set of sources.
var kObjects = netboot.Objects{Kernel: "k", Initramfs: "i"}

// toSource lets a node load K from another node, if one is free.
func (f *storm) toSource(n *node) bool {
	found := n.home.passing.Pick(f.moment(), netboot.Machine{MAC: n.mac(), Address: n.addr.Addr(), Objects: kObjects})
	if found == nil {
		return false
	}
	n.home.queue.Drop(n.mac())
	n.kFrom = f.nodes[index(found[0].Address)]
	f.admitNode(n)
	return true
}

// pass makes a node serve K.
func (f *storm) pass(n *node) {
	n.home.passing.Add(time.Time{},
		netboot.Source{MAC: n.mac(), Node: n.addr.String(), Address: n.addr, Objects: kObjects})
	n.home.call(f)
}

// admitNode sends a node its script and lets it load K.
func (f *storm) admitNode(n *node) {
	n.admitted = true
	n.home.busy(f)
	f.at(f.now+Firmware, kernel, n.id, 0)
}

// call admits the nodes whose held requests have a slot now.
func (s *server) call(f *storm) {
	for _, mac := range s.queue.Called(f.moment()) {
		f.admitNode(f.nodes[binary.BigEndian.Uint32(mac[2:])])
	}
	for _, mac := range s.queue.Held() {
		if n := f.nodes[binary.BigEndian.Uint32(mac[2:])]; !f.Passed || !n.admitted && !f.toSource(n) {
			return // no node is free
		}
	}
}

// loadK is a node's request for its kernel.
func (f *storm) loadK(n *node) {
	if n.dead {
		return
	}
	s := n.home
	if n.kFrom != nil {
		id := f.newFlow(flow{to: n.id, from: n.kFrom.id, unsent: int(f.K), size: int(f.K), quantum: kQuantum,
			what: kernelSet, live: true})
		n.flows = append(n.flows, id)
		f.res.KPassed += f.K
		f.push(id)
		return
	}
	n.load, n.left = s.queue.Begin(f.moment(), n.mac()), f.K
	id := f.newFlow(
		flow{
			to:       n.id,
			from:     -1 - s.id,
			unsent:   int(f.K),
			size:     int(f.K),
			quantum:  kQuantum,
			what:     kernelSet,
			live:     true,
			admitted: true,
		},
	)
	n.flows = append(n.flows, id)
	f.kSent += f.K
	s.sending++
	f.res.KAtOnce = max(f.res.KAtOnce, s.sending)
	f.push(id)
}

// kPassed is a part of K that left the server. The next node is admitted when little of K is left.
func (f *storm) kPassed(n *node, bytes int64) {
	if n.kFrom != nil {
		return
	}
	s := n.home
	n.left -= bytes
	s.queue.SawTransfer(f.moment(), n.mac(), n.load, bytes)
	if n.left > s.queue.Rest() {
		return
	}
	s.queue.End(f.moment(), n.mac(), n.load)
	s.call(f)
	s.busy(f)
}

// kDone is a node that has received K.
func (f *storm) kDone(n *node) {
	n.k = f.now
	if from := n.kFrom; from != nil {
		n.home.passing.Done(f.moment(), n.mac(), from.mac())
		n.home.call(f)
	} else {
		n.home.sending--
	}
	f.at(f.now+f.Start, start, n.id, 0)
}

// busy tells the tracker whether K fills the uplink: more than half of the slots are in use.
func (s *server) busy(f *storm) {
	now := s.queue.State(f.moment())
	s.tracker.Busy(now.Loading > now.Slots/2)
}
