package swarm

import (
	"net/netip"
	"time"
)

// Probes. A peer that lost its power closes no connection. It would look slow, and its timeouts would count as usual
// transfer times. So a peer whose transfer takes long is probed by a new connection. A running kernel accepts it,
// however busy the program and the link are.
const (
	probeFactor   = 3                      // in usual transfer times: a peer is probed after a transfer took so long
	minProbe      = 200 * time.Millisecond // shortest time before a probe
	probeFirst    = time.Second            // time before a probe while the usual time is unknown
	probeInterval = 2 * time.Second        // pause between probes of one peer; at least slowFactor usual transfer times
	// Time to connect, even if the first packet is lost.
	probeConnectTime = 1200 * time.Millisecond
)

// probeSlow probes the peer of a transfer that takes long.
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

// PeerUnreachable avoids a peer that did not accept a probe, and cancels its transfers.
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
