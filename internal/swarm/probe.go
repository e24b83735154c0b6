package swarm

import (
	"net/netip"
	"time"
)

// A peer that lost its power says nothing any more, and its kernel nothing for it: who waits for it takes it for
// slow, for eight usual transfers each time, and learns from it that all are. So one whose transfer takes long is
// probed meanwhile. A connection is made by a peer's kernel, however busy its program and its link are.
const (
	probeFactor   = 3                      // a transfer that takes so many times the usual one has its peer probed
	probeMin      = 200 * time.Millisecond // but not before this
	probeFirst    = time.Second            // before enough is known of this network
	probeInterval = 2 * time.Second        // and each peer not again for so long, or eight usual transfers
	// in which a connection comes about where word is not late, also if its first packet is lost
	probeConnectTime = 1200 * time.Millisecond
)

// doubt has the peer of a transfer probed that takes long.
func (s *Fetcher) probeSlow(now time.Duration, f transfer) {
	after := probeFirst
	if s.peerSamples >= learnSamples {
		after = max(probeMin, probeFactor*s.peerTime)
	}
	k := s.find(f.Peer)
	if k == nil {
		return
	}
	if at := max(f.start+after, k.probeAfter); now < at {
		s.wake(at)
		return
	}
	k.probeAfter = now + max(probeInterval, slowFactor*s.peerTime)
	s.step.Probe = append(s.step.Probe, k.addr)
}

// ProbeTime is how long a connection may take to come about.
func (s *Fetcher) ProbeTimeout() time.Duration { return probeConnectTime + s.delay }

// Unreached leaves a peer that could not be reached, at once: what it has is no help, and the tracker shall know.
// What nobody else has that is known is asked for, whatever the tracker said when that peer had it.
func (s *Fetcher) PeerUnreachable(now time.Duration, a netip.AddrPort) {
	k := s.find(a)
	if k == nil {
		return
	}
	for i := len(s.transfers) - 1; i >= 0; i-- {
		if f := s.transfers[i].Fetch; f.Peer == a {
			s.cancel(f)
			s.pieces[f.Piece].failed++
		}
	}
	for p := range s.pieces {
		if s.pieces[p].holders == k.bit {
			s.pieces[p].notBefore = 0
		}
	}
	s.avoid(now, k, AvoidedPeer{Peer: a, Unreachable: true})
}
