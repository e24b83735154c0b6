package swarm

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// maxRecent bounds the recent peers: the one that sent the last object is not always ahead.
const maxRecent = 2

// bootstrapTimeout bounds a request to a bootstrap peer. What is read first, the index, is small.
const bootstrapTimeout = time.Second

// DemandReads decides where a node fetches demand objects: those outside of its pack. It also decides which peers may
// wait here for an object that is on its way. It is not safe for concurrent use.
type DemandReads struct {
	o         DemandOptions
	bootstrap []netip.AddrPort // that answer
	recent    []netip.AddrPort // the last one first
	pending   map[chunk.ID]*PendingObject
}

// DemandOptions are the inputs of DemandReads.
type DemandOptions struct {
	Bootstrap     []netip.AddrPort      // the peers that sent the node its bootstrap files
	AnnounceDelay func() time.Duration  // 0: as usual
	Banned        func(netip.Addr) bool // nothing is taken from such an address
}

// NewDemandReads returns the decisions of a node that reads nothing yet.
func NewDemandReads(o DemandOptions) *DemandReads {
	return &DemandReads{
		o:         o,
		bootstrap: slices.Clone(o.Bootstrap[:min(len(o.Bootstrap), bootstrapNames)]),
		pending:   map[chunk.ID]*PendingObject{},
	}
}

// PendingObject is a demand object that a node is fetching.
type PendingObject struct {
	id      chunk.ID
	reads   int  // local reads of it
	waiters int  // nodes that wait here for it
	settled bool // it is known who sends it: this node waits for no node that waits here
}

// Begin starts a read of an object that the node does not have; End ends it. A node that shares, because it knows
// peers and a tracker, asks peers. Any other asks its bootstrap peers, else the origin.
//
// Recent peers are asked before the tracker. Boots of one version read about the same in about the same order, so a
// peer that was ahead of this node still is.
func (l *DemandReads) Begin(id chunk.ID, sharing bool) *DemandRead {
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
	if !sharing {
		r.stage, r.first = FromBootstrap, candidates{
			ask:  DemandRequest{From: FromBootstrap, Timeout: max(bootstrapTimeout, l.o.AnnounceDelay())},
			rest: slices.Clone(l.bootstrap),
		}
	}
	return r
}

// End ends a read, and reports whether it was the last one of its object.
func (l *DemandReads) End(r *DemandRead) (last bool) {
	r.over = true
	if r.pending.reads--; r.pending.reads > 0 {
		return false
	}
	delete(l.pending, r.pending.id)
	return true
}

// Wait reports whether another node may wait here for an object that this node is fetching: it returns nil, or what to
// Leave. first: the other node has not asked the tracker. Two nodes that fetch the same object must not wait for each
// other, so until the tracker has named a sender only nodes with the higher address wait.
func (l *DemandReads) Wait(id chunk.ID, first, higher bool) *PendingObject {
	w := l.pending[id]
	if w == nil || first && !w.settled && !higher || w.waiters >= 2*maxNamed {
		return nil
	}
	w.waiters++
	return w
}

// Leave ends the wait of one node.
func (w *PendingObject) Leave() { w.waiters-- }

// trackerTimeout is how long a read waits for the tracker, and for peers whose time the tracker does not tell.
func (l *DemandReads) trackerTimeout() time.Duration {
	return max(minHedge, l.o.AnnounceDelay()/demandDelayPart)
}

// recentTimeout is how long the recent peers may take, who may be fetching the object themselves.
func (l *DemandReads) recentTimeout() time.Duration { return max(minHedge, 2*l.o.AnnounceDelay()) }

// addRecent notes a peer that sent a demand object.
func (l *DemandReads) addRecent(a netip.AddrPort) {
	l.ForgetRecent(a)
	l.recent = slices.Insert(l.recent, 0, a)
	l.recent = l.recent[:min(len(l.recent), maxRecent)]
}

// ForgetRecent removes a peer that cannot be reached or broke off.
func (l *DemandReads) ForgetRecent(a netip.AddrPort) {
	l.recent = slices.DeleteFunc(slices.Clone(l.recent), func(b netip.AddrPort) bool { return b == a })
}

func (l *DemandReads) forgetBootstrap(a netip.AddrPort) {
	l.bootstrap = slices.DeleteFunc(slices.Clone(l.bootstrap), func(b netip.AddrPort) bool { return b == a })
}
