package swarm

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// maxGivers is how many of those are asked first that gave this node something lately. Who gave the last object is
// not always ahead.
const maxRecent = 2

// helperTime is how long one who helped this node to start may take for what it reads first. That is small: the index.
const bootstrapTimeout = time.Second

// LooseReads decide whom a node asks for the loose objects that its reads wait for, and which peers may wait here
// for one that is on its way. Like Swarm they have no socket, goroutine or clock, and are not safe for use by
// several goroutines.
type DemandReads struct {
	o         DemandOptions
	bootstrap []netip.AddrPort // that are asked still
	recent    []netip.AddrPort // the last one first
	pending   map[chunk.ID]*PendingObject
}

// LooseOptions are what LooseReads ask the node that they are of.
type DemandOptions struct {
	Bootstrap     []netip.AddrPort      // who gave the node what it started with
	AnnounceDelay func() time.Duration  // how long word may be on its way; 0: no longer than usual
	Banned        func(netip.Addr) bool // nothing is taken from there
}

// NewLooseReads returns those of a node that reads nothing yet.
func NewDemandReads(o DemandOptions) *DemandReads {
	return &DemandReads{
		o:         o,
		bootstrap: slices.Clone(o.Bootstrap[:min(len(o.Bootstrap), bootstrapNames)]),
		pending:   map[chunk.ID]*PendingObject{},
	}
}

// Await is a loose object that is on its way to a node.
type PendingObject struct {
	id      chunk.ID
	reads   int  // that want it
	waiters int  // nodes that wait for it
	settled bool // the tracker said who sends it: they wait for nobody who may wait for this node
}

// Begin is a read of an object that the node does not have. It asks peers if the node is social: if it knows
// others, and a tracker that knows what they have. One that is alone turns to the origin at once, or to those who
// helped it to start. End ends it.
//
// Givers are asked before the tracker. Boots of a version read about the same in about the same order, and who was
// ahead of this node still is: so a question is spared for most of what is in no pack.
func (l *DemandReads) Begin(id chunk.ID, social bool) *DemandRead {
	w := l.pending[id]
	if w == nil {
		w = &PendingObject{id: id}
		l.pending[id] = w
	}
	w.reads++
	r := &DemandRead{
		of:      l,
		pending: w,
		stage:   FromRecent,
		first:   candidates{ask: DemandRequest{From: FromRecent}, rest: slices.Clone(l.recent)},
	}
	if !social {
		r.stage, r.first = FromBootstrap, candidates{
			ask:  DemandRequest{From: FromBootstrap, Timeout: max(bootstrapTimeout, l.o.AnnounceDelay())},
			rest: slices.Clone(l.bootstrap),
		}
	}
	return r
}

// End ends a read, well or not, and tells whether it was the last one of its object: who waits for that here waits
// no longer.
func (l *DemandReads) End(r *DemandRead) (last bool) {
	r.over = true
	if r.pending.reads--; r.pending.reads > 0 {
		return false
	}
	delete(l.pending, r.pending.id)
	return true
}

// Wait tells whether one who asks for an object that this node does not have may wait for it here: nil, or what to
// Leave. first: he has not asked the tracker. Nodes that asked each other for what both are getting would both
// wait. So of those that are not sure yet who sends it to them only those wait that have the higher address, each
// for a lower one, and none in a circle.
func (l *DemandReads) Wait(id chunk.ID, first, higher bool) *PendingObject {
	w := l.pending[id]
	if w == nil || first && !w.settled && !higher || w.waiters >= 2*maxNamed {
		return nil
	}
	w.waiters++
	return w
}

// Leave is one who waited and does not any more.
func (w *PendingObject) Leave() { w.waiters-- }

// looseTime is how long a read waits for the tracker, and for a peer of whom it does not say how long that takes,
// before the origin is asked for a loose object.
func (l *DemandReads) trackerTimeout() time.Duration {
	return max(hedgeMin, l.o.AnnounceDelay()/demandDelayPart)
}

// giverTime is how long the givers may take. They may be getting the object themselves.
func (l *DemandReads) recentTimeout() time.Duration { return max(hedgeMin, 2*l.o.AnnounceDelay()) }

// gave notes who gave a loose object.
func (l *DemandReads) addRecent(a netip.AddrPort) {
	l.ForgetRecent(a)
	l.recent = slices.Insert(l.recent, 0, a)
	l.recent = l.recent[:min(len(l.recent), maxRecent)]
}

// forgetGiver is for one who cannot be reached or breaks off: a read would wait for him.
func (l *DemandReads) ForgetRecent(a netip.AddrPort) {
	l.recent = slices.DeleteFunc(slices.Clone(l.recent), func(b netip.AddrPort) bool { return b == a })
}

func (l *DemandReads) forgetBootstrap(a netip.AddrPort) {
	l.bootstrap = slices.DeleteFunc(slices.Clone(l.bootstrap), func(b netip.AddrPort) bool { return b == a })
}
