package swarm

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// maxGivers is how many of those are asked first that gave this node something lately. Who gave the last object is
// not always ahead.
const maxGivers = 2

// helperTime is how long one who helped this node to start may take for what it reads first. That is small: the index.
const helperTime = time.Second

// LooseReads decide whom a node asks for the loose objects that its reads wait for, and which peers may wait here
// for one that is on its way. Like Swarm they have no socket, goroutine or clock, and are not safe for use by
// several goroutines.
type LooseReads struct {
	o       LooseOptions
	helpers []netip.AddrPort // that are asked still
	givers  []netip.AddrPort // the last one first
	awaited map[chunk.ID]*Await
}

// LooseOptions are what LooseReads ask the node that they are of.
type LooseOptions struct {
	Helpers []netip.AddrPort      // who gave the node what it started with
	Late    func() time.Duration  // how long word may be on its way; 0: no longer than usual
	Banned  func(netip.Addr) bool // nothing is taken from there
}

// NewLooseReads returns those of a node that reads nothing yet.
func NewLooseReads(o LooseOptions) *LooseReads {
	return &LooseReads{
		o:       o,
		helpers: slices.Clone(o.Helpers[:min(len(o.Helpers), startNames)]),
		awaited: map[chunk.ID]*Await{},
	}
}

// Await is a loose object that is on its way to a node.
type Await struct {
	id     chunk.ID
	reads  int  // that want it
	others int  // nodes that wait for it
	sure   bool // the tracker said who sends it: they wait for nobody who may wait for this node
}

// Begin is a read of an object that the node does not have. It asks peers if the node is social: if it knows
// others, and a tracker that knows what they have. One that is alone turns to the origin at once, or to those who
// helped it to start. End ends it.
//
// Givers are asked before the tracker. Boots of a version read about the same in about the same order, and who was
// ahead of this node still is: so a question is spared for most of what is in no pack.
func (l *LooseReads) Begin(id chunk.ID, social bool) *LooseRead {
	w := l.awaited[id]
	if w == nil {
		w = &Await{id: id}
		l.awaited[id] = w
	}
	w.reads++
	r := &LooseRead{
		of:    l,
		await: w,
		stage: FromGiver,
		first: chain{ask: LooseAsk{From: FromGiver}, left: slices.Clone(l.givers)},
	}
	if !social {
		r.stage, r.first = FromHelper, chain{
			ask:  LooseAsk{From: FromHelper, Patience: max(helperTime, l.o.Late())},
			left: slices.Clone(l.helpers),
		}
	}
	return r
}

// End ends a read, well or not, and tells whether it was the last one of its object: who waits for that here waits
// no longer.
func (l *LooseReads) End(r *LooseRead) (last bool) {
	r.over = true
	if r.await.reads--; r.await.reads > 0 {
		return false
	}
	delete(l.awaited, r.await.id)
	return true
}

// Wait tells whether one who asks for an object that this node does not have may wait for it here: nil, or what to
// Leave. first: he has not asked the tracker. Nodes that asked each other for what both are getting would both
// wait. So of those that are not sure yet who sends it to them only those wait that have the higher address, each
// for a lower one, and none in a circle.
func (l *LooseReads) Wait(id chunk.ID, first, higher bool) *Await {
	w := l.awaited[id]
	if w == nil || first && !w.sure && !higher || w.others >= 2*looseNamed {
		return nil
	}
	w.others++
	return w
}

// Leave is one who waited and does not any more.
func (w *Await) Leave() { w.others-- }

// looseTime is how long a read waits for the tracker, and for a peer of whom it does not say how long that takes,
// before the origin is asked for a loose object.
func (l *LooseReads) looseTime() time.Duration { return max(hedgeLeast, l.o.Late()/looseLate) }

// giverTime is how long the givers may take. They may be getting the object themselves.
func (l *LooseReads) giverTime() time.Duration { return max(hedgeLeast, 2*l.o.Late()) }

// gave notes who gave a loose object.
func (l *LooseReads) gave(a netip.AddrPort) {
	l.ForgetGiver(a)
	l.givers = slices.Insert(l.givers, 0, a)
	l.givers = l.givers[:min(len(l.givers), maxGivers)]
}

// forgetGiver is for one who cannot be reached or breaks off: a read would wait for him.
func (l *LooseReads) ForgetGiver(a netip.AddrPort) {
	l.givers = slices.DeleteFunc(slices.Clone(l.givers), func(b netip.AddrPort) bool { return b == a })
}

func (l *LooseReads) dismiss(a netip.AddrPort) {
	l.helpers = slices.DeleteFunc(slices.Clone(l.helpers), func(b netip.AddrPort) bool { return b == a })
}
