package swarm

import (
	"net/netip"
	"time"
)

// Probes. A peer that lost its power closes no connection, so it would be taken for slow, and its timeouts for usual
// transfer times. So while a transfer takes long, the peer is probed by a new connection, which its kernel accepts
// however busy its program and link are.
const (
	probeFactor   = 3                      // times the usual transfer time after which the peer is probed
	minProbe      = 200 * time.Millisecond // but not before this
	probeFirst    = time.Second            // while the usual time is not known
	probeInterval = 2 * time.Second        // of one peer, or eight usual transfer times
	// time for a connection, even if its first packet is lost
	probeConnectTime = 1200 * time.Millisecond
)

// probeSlow has the peer of a transfer probed that takes long.
func (s *Fetcher) probeSlow(now time.Duration, f transfer) {
	after := probeFirst
	if s.peerSamples >= learnSamples {
		after = max(minProbe, probeFactor*s.peerTime)
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

// ProbeTimeout is how long a probe may take.
func (s *Fetcher) ProbeTimeout() time.Duration { return probeConnectTime + s.delay }

// PeerUnreachable avoids a peer at once and cancels its transfers.
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
	s.avoid(now, k, AvoidedPeer{Peer: a, Unreachable: true})
}
