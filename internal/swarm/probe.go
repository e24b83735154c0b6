package swarm

import (
	"net/netip"
	"time"
)

// A peer that lost its power says nothing any more, and its kernel nothing for it: who waits for it takes it for
// slow, for eight usual transfers each time, and learns from it that all are. So one whose transfer takes long is
// probed meanwhile. A connection is made by a peer's kernel, however busy its program and its link are.
const (
	probeFactor = 3                      // a transfer that takes so many times the usual one has its peer probed
	probeLeast  = 200 * time.Millisecond // but not before this
	probeFirst  = time.Second            // before enough is known of this network
	probeAgain  = 2 * time.Second        // and each peer not again for so long, or eight usual transfers
	// in which a connection comes about where word is not late, also if its first packet is lost
	probeTime = 1200 * time.Millisecond
)

// doubt has the peer of a transfer probed that takes long.
func (s *Swarm) doubt(now time.Duration, f flight) {
	after := probeFirst
	if s.learned >= learnLeast {
		after = max(probeLeast, probeFactor*s.typical)
	}
	k := s.find(f.Peer)
	if k == nil {
		return
	}
	if at := max(f.start+after, k.probe); now < at {
		s.wake(at)
		return
	}
	k.probe = now + max(probeAgain, slowFactor*s.typical)
	s.step.Probe = append(s.step.Probe, k.addr)
}

// ProbeTime is how long a connection may take to come about.
func (s *Swarm) ProbeTime() time.Duration { return probeTime + s.late }

// Unreached leaves a peer that could not be reached, at once: what it has is no help, and the tracker shall know.
// What nobody else has that is known is asked for, whatever the tracker said when that peer had it.
func (s *Swarm) Unreached(now time.Duration, a netip.AddrPort) {
	k := s.find(a)
	if k == nil {
		return
	}
	for i := len(s.flights) - 1; i >= 0; i-- {
		if f := s.flights[i].Fetch; f.Peer == a {
			s.cancel(f)
			s.pieces[f.Piece].failed++
		}
	}
	for p := range s.pieces {
		if s.pieces[p].holders == k.slot {
			s.pieces[p].coming = 0
		}
	}
	s.leave(now, k, Left{Peer: a, Unreached: true})
}
