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
	FromBootstrap DemandSource = iota // the peers that sent the bootstrap files; for a node that knows no others
	FromRecent                        // peers that sent demand objects lately, asked before the tracker
	FromTracker                       // the tracker, which names peers that have or will have the object
	FromPeer                          // a peer that the tracker named
	FromOrigin
)

// DemandRequest is a request for a demand object. Its result goes to Answered, Came or Failed. A request to a bootstrap
// peer or the tracker ends within Timeout.
type DemandRequest struct {
	From DemandSource
	Peer netip.AddrPort // zero: the tracker or the origin
	// A bootstrap peer and the tracker must answer within Timeout. Another peer may be silent for Timeout, if that is
	// longer than the usual limit.
	Timeout time.Duration
}

// DemandRead is one read that waits for a demand object.
type DemandRead struct {
	of         *DemandReads
	pending    *PendingObject
	stage      DemandSource
	nextStage  time.Duration // when the next stage begins although a request is open; 0: when that request fails
	first      candidates    // bootstrap or recent peers
	peers      candidates
	asked      bool          // the tracker was asked; in the last stage: the origin
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

// Next returns the requests to send now, and when to call it again if no request ends before; 0: no need. Requests of
// earlier stages stay open and may still succeed.
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

// endFirst ends the first stage. Recent peers that did not answer in time are forgotten.
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

// Answered takes the tracker's answer: peers that have or will have the object, and how long they may take. After a
// timeout of the tracker, names is empty.
func (r *DemandRead) Answered(names []netip.AddrPort, wait time.Duration) {
	r.answered, r.spreadTime = true, max(wait, r.of.trackerTimeout())
	r.peers = candidates{
		ask:  DemandRequest{From: FromPeer, Timeout: r.spreadTime},
		rest: slices.Clone(names[:min(len(names), maxNames)]),
	}
}

// Came ends the read, because the object has arrived.
func (r *DemandRead) Came(a DemandRequest) {
	r.over = true
	if a.From == FromRecent || a.From == FromPeer {
		r.of.addRecent(a.Peer)
	}
}

// Failed takes a request that did not bring the object.
func (r *DemandRead) Failed(a DemandRequest, why Failure) {
	switch a.From {
	// A bootstrap peer that does not answer in time is not asked again.
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
