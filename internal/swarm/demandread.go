package swarm

import (
	"net/netip"
	"slices"
	"time"
)

// LooseFrom is who is asked for a loose object.
type DemandSource int

// Who can be asked, in the order in which that is done.
const (
	FromBootstrap DemandSource = iota // who gave this node what it started with; by a node that knows nobody else
	FromRecent                        // who gave it loose objects lately, and is told that nobody else was asked before
	FromTracker                       // who says which peers have the object, or are getting it
	FromPeer                          // one of those
	FromOrigin
)

// LooseAsk is a question for a loose object. Whoever asks it tells the read how it ended; of a helper or the
// tracker that is within Patience.
type DemandRequest struct {
	From DemandSource
	Peer netip.AddrPort // zero: the tracker, or the origin
	// a peer may be silent for so long if that is more than usual; a helper, or the tracker, has no longer
	Timeout time.Duration
}

// LooseRead is one read that waits for a loose object.
type DemandRead struct {
	of         *DemandReads
	pending    *PendingObject
	stage      DemandSource
	nextStage  time.Duration // when the next stage begins although somebody is asked still; 0: not before he has failed
	first      candidates    // helpers or givers
	peers      candidates
	asked      bool          // the tracker, or in the last stage the origin
	answered   bool          // the tracker answered, or did not in time
	spreadTime time.Duration // how long the object may take to come round
	over       bool
}

// chain is peers that are asked one after the other.
type candidates struct {
	ask    DemandRequest
	rest   []netip.AddrPort
	asking bool // one of them is asked now
}

// next is the next question, if none is under way, to one who is not banned.
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

// Next is what to ask now, and when to call it again if nothing ends before; 0: not at all. Who was asked may still
// answer when others are asked, too.
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

// leaveFirst turns from those who were asked first. A giver who is late is not asked first again, until he gives
// something.
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

// Told is the tracker's answer: who has the object or will have it, and how long it may take to come round. A
// tracker that is silent named nobody.
func (r *DemandRead) Answered(names []netip.AddrPort, wait time.Duration) {
	r.answered, r.spreadTime = true, max(wait, r.of.trackerTimeout())
	r.peers = candidates{
		ask:  DemandRequest{From: FromPeer, Timeout: r.spreadTime},
		rest: slices.Clone(names[:min(len(names), maxNames)]),
	}
}

// Came ends the read: what was asked for is there.
func (r *DemandRead) Came(a DemandRequest) {
	r.over = true
	if a.From == FromRecent || a.From == FromPeer {
		r.of.addRecent(a.Peer)
	}
}

// Failed says that one who was asked did not give the object.
func (r *DemandRead) Failed(a DemandRequest, why Failure) {
	switch a.From {
	// one who is late or gone, or lies, is asked once: a helper is a help when there is nothing to wait for
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
