package swarm

import "time"

const (
	// A failure is reported after this delay. By then the node may know that the peer is gone.
	failureDelay = 2 * time.Second
	maxReported  = 128 // addresses reported in one boot
)

// noteFailure notes a transfer that broke off or was slow. The first one of each peer is reported later.
func (s *Fetcher) noteFailure(now time.Duration, k *knownPeer, slow bool) {
	if s.failing&k.bit != 0 || s.reported[k.addr.Addr()] || len(s.reported) >= maxReported {
		return
	}
	if s.failing == 0 {
		s.reportAt = now + failureDelay + s.delay
	}
	s.failing |= k.bit
	k.failedAt, k.failedSlow = now, slow
}

// reportFailures reports together the peers that failed a while ago and are still known. Peers that are gone were not
// bad. Peers that are avoided or banned are reported as such.
func (s *Fetcher) reportFailures(now time.Duration) {
	if wait := (failureDelay + s.delay) / 2; now >= s.reportAt {
		for rest := s.failing; rest != 0; {
			if k := &s.peers[rest.pop()]; now >= k.failedAt+wait {
				s.failing &^= k.bit
				s.reported[k.addr.Addr()] = true
				s.step.Failed = append(s.step.Failed, AvoidedPeer{Peer: k.addr, Slow: k.failedSlow})
			}
		}
		s.reportAt = now + wait
	}
	if s.failing != 0 {
		s.step.WakeFailed = s.reportAt
	}
}
