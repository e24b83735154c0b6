package swarm

import "time"

const (
	// before a peer is told of that failed: word that it is gone may come after its transfers broke off
	failWait = 2 * time.Second
	failMost = 128 // addresses of peers that are told of in a boot
)

// lags tells whether a transfer from a peer took much longer than others do.
func (s *Swarm) lags(took time.Duration) bool {
	return s.learned >= learnLeast && took > max(slowLeast, lagFactor*s.typical)
}

// failed notes a transfer from a peer that broke off or was slow. The first one of each is told of, in a while;
// what is asked of it is up to strikes.
func (s *Swarm) failed(now time.Duration, k *known, slow bool) {
	if s.doubted&k.slot != 0 || s.exposed[k.addr.Addr()] || len(s.exposed) >= failMost {
		return
	}
	if s.doubted == 0 {
		s.tellAt = now + failWait + s.late
	}
	s.doubted |= k.slot
	k.failed, k.lagged = now, slow
}

// tellFailed has those told of that failed a while ago, all together, and are still known: who is gone was not bad,
// and of who was left or banned that is told.
func (s *Swarm) tellFailed(now time.Duration) {
	if wait := (failWait + s.late) / 2; now >= s.tellAt {
		for rest := s.doubted; rest != 0; {
			if k := &s.peers[rest.pop()]; now >= k.failed+wait {
				s.doubted &^= k.slot
				s.exposed[k.addr.Addr()] = true
				s.step.Failed = append(s.step.Failed, Left{Peer: k.addr, Slow: k.lagged})
			}
		}
		s.tellAt = now + wait
	}
	if s.doubted != 0 {
		s.step.Tell = s.tellAt
	}
}
