package swarm

import (
	"net/netip"
	"slices"
	"time"
)

// DemandSource is where a demand object is requested.
type DemandSource int

// The sources, in the order in which they are tried.
const (
	FromBootstrap DemandSource = iota // the peers that sent the bootstrap files; for a node that knows no other
	FromRecent                        // peers that sent demand objects lately, asked before the tracker
	FromTracker                       // names the peers that have the object or are getting it
	FromPeer                          // one that the tracker named
	FromOrigin
)

// DemandRequest is a request for a demand object, whose result goes to Answered, Came or Failed. Of a bootstrap peer
// or the tracker it comes within Timeout.
type DemandRequest struct {
	From DemandSource
	Peer netip.AddrPort // zero: the tracker or the origin
	// a peer may be silent for so long if that is more than usual; a bootstrap peer and the tracker must answer within
	Timeout time.Duration
}

// DemandRead is one read that waits for a demand object.
type DemandRead struct {
	of         *DemandReads
	pending    *PendingObject
	stage      DemandSource
	nextStage  time.Duration // when the next stage begins although a request is open; 0: only when that failed
	first      candidates    // bootstrap or recent peers
	peers      candidates
	asked      bool          // the tracker, or in the last stage the origin
	answered   bool          // the tracker answered or timed out
	spreadTime time.Duration // how long the peers may take
	over       bool
}

// candidates are peers that are asked one after the other.
type candidates struct {
	ask    DemandRequest
	rest   []netip.AddrPort
	asking bool // a request to one of them is open
}

// next appends the next request, unless one is open.
func (c *candidates) next(of *DemandReads, asks []DemandRequest) []DemandRequest {
	for !c.asking && len(c.rest) > 0 && of.o.Banned(c.rest[0].Addr()) {
		c.rest = c.rest[1:]
	}
	if c.asking || len(c.rest) == 0 {
		return asks
	}
	c.ask.Peer, c.rest, c.asking = c.rest[0], c.rest[1:], true
	return append(asks, c.ask)
}

// Next returns the requests to send now, and when to call it again if none ends before; 0: no need. Requests of
// earlier stages may still succeed.
func (r *DemandRead) Next(now time.Duration) (asks []DemandRequest, wake time.Duration) {
	if r.over {
		return nil, 0
	}
	for {
		asks = r.peers.next(r.of, r.first.next(r.of, asks))
		switch r.stage {
		case FromBootstrap, FromRecent:
			if r.stage == FromRecent && r.nextStage == 0 {
				r.nextStage = now + r.of.recentTimeout()
			}
			if r.first.asking && (r.nextStage == 0 || now < r.nextStage) {
				return asks, r.nextStage
			}
			r.endFirst()
		case FromTracker:
			if !r.asked {
				r.asked = true
				asks = append(asks, DemandRequest{From: FromTracker, Timeout: r.of.trackerTimeout()})
			}
			if !r.answered {
				return asks, 0
			}
			r.pending.settled, r.stage, r.nextStage = true, FromPeer, now+r.spreadTime
		case FromPeer:
			if r.peers.asking && now < r.nextStage {
				return asks, r.nextStage
			}
			r.stage, r.asked = FromOrigin, false
		case FromOrigin:
			if !r.asked {
				r.asked, r.pending.settled = true, true
				asks = append(asks, DemandRequest{From: FromOrigin})
			}
			return asks, 0
		}
	}
}

// endFirst ends the first stage. A recent peer that did not answer in time is not asked first again.
func (r *DemandRead) endFirst() {
	if r.stage == FromBootstrap {
		r.stage = FromOrigin
		return
	}
	if r.first.asking {
		r.of.recent = nil
	}
	r.stage = FromTracker
}

// Answered takes the tracker's answer: the peers that have the object or are getting it, and how long they may take. A
// tracker that timed out named nobody.
func (r *DemandRead) Answered(names []netip.AddrPort, wait time.Duration) {
	r.answered, r.spreadTime = true, max(wait, r.of.trackerTimeout())
	r.peers = candidates{
		ask:  DemandRequest{From: FromPeer, Timeout: r.spreadTime},
		rest: slices.Clone(names[:min(len(names), maxNames)]),
	}
}

// Came ends the read: the object is here.
func (r *DemandRead) Came(a DemandRequest) {
	r.over = true
	if a.From == FromRecent || a.From == FromPeer {
		r.of.addRecent(a.Peer)
	}
}

// Failed takes a request that did not bring the object.
func (r *DemandRead) Failed(a DemandRequest, why Failure) {
	switch a.From {
	// a bootstrap peer is only worth asking while it answers at once
	case FromBootstrap:
		r.first.asking = false
		if why != Missing && why != Busy {
			r.of.forgetBootstrap(a.Peer)
		}
	case FromRecent:
		r.first.asking = false
		if why == Broken {
			r.of.ForgetRecent(a.Peer)
		}
	case FromPeer:
		r.peers.asking = false
	}
}
