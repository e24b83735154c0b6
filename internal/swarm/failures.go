package swarm

import "time"

const (
	// before a peer is told of that failed: word that it is gone may come after its transfers broke off
	failureDelay = 2 * time.Second
	maxReported  = 128 // addresses of peers that are told of in a boot
)

// lags tells whether a transfer from a peer took much longer than others do.
func (s *Fetcher) isSlow(took time.Duration) bool {
	return s.peerSamples >= learnSamples && took > max(slowMin, laggardFactor*s.peerTime)
}

// failed notes a transfer from a peer that broke off or was slow. The first one of each is told of, in a while;
// what is asked of it is up to strikes.
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

// tellFailed has those told of that failed a while ago, all together, and are still known: who is gone was not bad,
// and of who was left or banned that is told.
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
