package swarm

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// maxRecent bounds the list of recent peers. It is more than one, because the last sender is not always ahead.
const maxRecent = 2

// bootstrapTimeout bounds a request to a bootstrap peer. The first objects that a boot reads, those of the index, are
// small.
const bootstrapTimeout = time.Second

// DemandReads decides where a node fetches demand objects, which are outside of its pack. It also decides which peers
// may wait here for an object that this node is fetching. It is not safe for concurrent use.
type DemandReads struct {
	o         DemandOptions
	bootstrap []netip.AddrPort // bootstrap peers that still answer
	recent    []netip.AddrPort // peers that sent a demand object, the latest first
	pending   map[chunk.ID]*PendingObject
}

// DemandOptions are the inputs of DemandReads.
type DemandOptions struct {
	Bootstrap     []netip.AddrPort      // the peers that sent the node its bootstrap files
	AnnounceDelay func() time.Duration  // 0: as usual
	Banned        func(netip.Addr) bool // nothing is fetched from such an address
}

// NewDemandReads returns the decisions of a node that has no open read.
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
	reads   int  // local reads of the object
	waiters int  // nodes that wait here for the object
	settled bool // the sender is known: this node waits for no node that waits here
}

// Begin starts a read of an object that the node does not have; End ends it. A node that shares (it has a tracker and
// peers) asks its recent peers and then the tracker. Recent peers come first: boots of one version read in about the
// same order, so a peer that was ahead still is. Another node asks its bootstrap peers, then the origin.
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

// Wait admits another node to wait here for an object that this node is fetching. It returns nil if not. first: the
// other node has not asked the tracker. Two nodes must not wait for each other: until the sender is known, only a node
// with a higher address may wait.
func (l *DemandReads) Wait(id chunk.ID, first, higher bool) *PendingObject {
	w := l.pending[id]
	if w == nil || first && !w.settled && !higher || w.waiters >= 2*maxNamed {
		return nil
	}
	w.waiters++
	return w
}

// Leave ends the wait of one node that Wait admitted.
func (w *PendingObject) Leave() { w.waiters-- }

// trackerTimeout is how long a read waits for the tracker. It is also the least wait for the peers that the tracker
// names.
func (l *DemandReads) trackerTimeout() time.Duration {
	return max(minHedge, l.o.AnnounceDelay()/demandDelayPart)
}

// recentTimeout is how long the recent peers may take. They may be fetching the object themselves.
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
