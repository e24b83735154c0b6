package swarm

import (
	"net/netip"
	"slices"
	"time"
)

// LooseFrom is who is asked for a loose object.
type LooseFrom int

// Who can be asked, in the order in which that is done.
const (
	FromHelper  LooseFrom = iota // who gave this node what it started with; by a node that knows nobody else
	FromGiver                    // who gave it loose objects lately, and is told that nobody else was asked before
	FromTracker                  // who says which peers have the object, or are getting it
	FromPeer                     // one of those
	FromOrigin
)

// LooseAsk is a question for a loose object. Whoever asks it tells the read how it ended; of a helper or the
// tracker that is within Patience.
type LooseAsk struct {
	From LooseFrom
	Peer netip.AddrPort // zero: the tracker, or the origin
	// a peer may be silent for so long if that is more than usual; a helper, or the tracker, has no longer
	Patience time.Duration
}

// LooseRead is one read that waits for a loose object.
type LooseRead struct {
	of     *LooseReads
	await  *Await
	stage  LooseFrom
	late   time.Duration // when the next stage begins although somebody is asked still; 0: not before he has failed
	first  chain         // helpers or givers
	peers  chain
	asked  bool          // the tracker, or in the last stage the origin
	told   bool          // the tracker answered, or did not in time
	spread time.Duration // how long the object may take to come round
	over   bool
}

// chain is peers that are asked one after the other.
type chain struct {
	ask   LooseAsk
	left  []netip.AddrPort
	under bool // one of them is asked now
}

// next is the next question, if none is under way, to one who is not banned.
func (c *chain) next(of *LooseReads, asks []LooseAsk) []LooseAsk {
	for !c.under && len(c.left) > 0 && of.o.Banned(c.left[0].Addr()) {
		c.left = c.left[1:]
	}
	if c.under || len(c.left) == 0 {
		return asks
	}
	c.ask.Peer, c.left, c.under = c.left[0], c.left[1:], true
	return append(asks, c.ask)
}

// Next is what to ask now, and when to call it again if nothing ends before; 0: not at all. Who was asked may still
// answer when others are asked, too.
func (r *LooseRead) Next(now time.Duration) (asks []LooseAsk, wake time.Duration) {
	if r.over {
		return nil, 0
	}
	for {
		asks = r.peers.next(r.of, r.first.next(r.of, asks))
		switch r.stage {
		case FromHelper, FromGiver:
			if r.stage == FromGiver && r.late == 0 {
				r.late = now + r.of.giverTime()
			}
			if r.first.under && (r.late == 0 || now < r.late) {
				return asks, r.late
			}
			r.leaveFirst()
		case FromTracker:
			if !r.asked {
				r.asked = true
				asks = append(asks, LooseAsk{From: FromTracker, Patience: r.of.looseTime()})
			}
			if !r.told {
				return asks, 0
			}
			r.await.sure, r.stage, r.late = true, FromPeer, now+r.spread
		case FromPeer:
			if r.peers.under && now < r.late {
				return asks, r.late
			}
			r.stage, r.asked = FromOrigin, false
		case FromOrigin:
			if !r.asked {
				r.asked, r.await.sure = true, true
				asks = append(asks, LooseAsk{From: FromOrigin})
			}
			return asks, 0
		}
	}
}

// leaveFirst turns from those who were asked first. A giver who is late is not asked first again, until he gives
// something.
func (r *LooseRead) leaveFirst() {
	if r.stage == FromHelper {
		r.stage = FromOrigin
		return
	}
	if r.first.under {
		r.of.givers = nil
	}
	r.stage = FromTracker
}

// Told is the tracker's answer: who has the object or will have it, and how long it may take to come round. A
// tracker that is silent named nobody.
func (r *LooseRead) Told(names []netip.AddrPort, wait time.Duration) {
	r.told, r.spread = true, max(wait, r.of.looseTime())
	r.peers = chain{
		ask:  LooseAsk{From: FromPeer, Patience: r.spread},
		left: slices.Clone(names[:min(len(names), looseNames)]),
	}
}

// Came ends the read: what was asked for is there.
func (r *LooseRead) Came(a LooseAsk) {
	r.over = true
	if a.From == FromGiver || a.From == FromPeer {
		r.of.gave(a.Peer)
	}
}

// Failed says that one who was asked did not give the object.
func (r *LooseRead) Failed(a LooseAsk, why Failure) {
	switch a.From {
	// one who is late or gone, or lies, is asked once: a helper is a help when there is nothing to wait for
	case FromHelper:
		r.first.under = false
		if why != Missing && why != Busy {
			r.of.dismiss(a.Peer)
		}
	case FromGiver:
		r.first.under = false
		if why == Broken {
			r.of.ForgetGiver(a.Peer)
		}
	case FromPeer:
		r.peers.under = false
	}
}
