package swarm

import (
	"slices"
	"time"
)

// Next decides what to do now. Call it after every input, and at the moment Step.Wake.
func (s *Fetcher) Next(now time.Duration) Step {
	s.step.Wake = 0
	if s.missing > 0 || len(s.urgent) > 0 || len(s.transfers) > 0 {
		s.cancelSlow(now)
		s.fetchUrgent(now)
		s.startGranted(now)
		if ahead := !s.yieldsToDemand(now); ahead {
			s.fetchFromPeers(now)
		}
		s.askTracker(now)
	}
	s.keepAlive(now)
	s.joinAgain(now)
	s.reportFailures(now)
	out := s.step
	s.step = Step{Fetch: s.step.Fetch[:0], Cancel: s.step.Cancel[:0]}
	return out
}

// wake makes sure that Next is called at t.
func (s *Fetcher) wake(t time.Duration) {
	if s.step.Wake == 0 || t < s.step.Wake {
		s.step.Wake = t
	}
}

// cancelSlow cancels transfers from peers that take much longer than usual.
func (s *Fetcher) cancelSlow(now time.Duration) {
	limit := s.transferTimeout()
	for i := len(s.transfers) - 1; i >= 0; i-- {
		f := s.transfers[i]
		if f.Origin() {
			continue // a transfer from the origin is never cancelled: there is no other source
		}
		if now < f.start+limit {
			s.wake(f.start + limit)
			s.probeSlow(now, f)
			continue
		}
		s.cancel(f.Fetch)
		s.learnPeerTime(limit) // if all peers are slow, the usual time grows
		s.pieces[f.Piece].failed++
		if k := s.find(f.Peer); k != nil {
			s.noteFailure(now, k, true)
			s.strike(now, k, true)
		}
	}
}

// transferTimeout is how long a transfer from a peer may take.
func (s *Fetcher) transferTimeout() time.Duration {
	if s.peerSamples < learnSamples {
		return max(slowFirst, s.retryAfter, s.delay)
	}
	return max(minSlow, slowFactor*s.peerTime)
}

// hedgeDelay is how long an urgent piece waits for a peer. It grows with the transfer time. Otherwise all nodes on a
// slow link would give up early and ask the server.
func (s *Fetcher) hedgeDelay() time.Duration {
	return min(max(minHedge, 4*s.peerTime), max(hedgeMax, s.delay))
}

// originDelay is how long an urgent piece waits before it is requested from the origin without a grant. With a tracker
// the delay is long, because a piece that is late is one that all other nodes wait for too.
func (s *Fetcher) originDelay() time.Duration {
	switch {
	case !s.tracker:
		return s.hedgeDelay()
	case s.retryAfter == 0 && s.peerSamples < learnSamples: // too little is known of this network yet
		return MessageTimeout(s.delay)
	}
	return max(hedgeMax, directedFactor*s.peerTime, 2*s.retryAfter, delayFactor*s.delay)
}

// SetDemandReads tells the fetcher how many reads wait for demand objects. While some do, nothing is fetched ahead, so
// that they have the link. This lasts a short time only: a demand object that does not arrive must not stop pieces.
func (s *Fetcher) SetDemandReads(now time.Duration, waiting int) {
	if s.demandReads == 0 && waiting > 0 {
		s.demandSince = now
	}
	s.demandReads = waiting
}

// yieldsToDemand reports whether fetching ahead pauses now for demand reads.
func (s *Fetcher) yieldsToDemand(now time.Duration) bool {
	until := s.demandSince + s.hedgeDelay()
	if s.demandReads == 0 || now >= until {
		return false
	}
	s.wake(until)
	return true
}

// IsUrgent reports whether a read waits for a piece.
func (s *Fetcher) IsUrgent(p int) bool {
	return slices.ContainsFunc(s.urgent, func(d urgentPiece) bool { return d.piece == p })
}

// fetchUrgent fetches urgent pieces from a peer at once. A piece comes from the origin if a peer failed or none has it.
// With a tracker this happens only after originDelay.
func (s *Fetcher) fetchUrgent(now time.Duration) {
	for i := range s.urgent {
		d := &s.urgent[i]
		p, st := d.piece, &s.pieces[d.piece]
		late := now >= d.since+s.originDelay()
		switch {
		case d.fromOrigin && st.transfers > 0:
			continue
		case late || !s.tracker && (st.failed > 0 || st.holders == 0):
			d.fromOrigin = true
			if !s.isRunning(Fetch{Piece: p}) {
				s.begin(now, Fetch{Piece: p})
			}
			continue
		case st.transfers == 0:
			if k := s.choose(now, p, true); k != nil {
				s.begin(now, Fetch{p, k.addr})
			}
		}
		s.wake(d.since + s.originDelay())
	}
}

func (s *Fetcher) isRunning(f Fetch) bool {
	return slices.ContainsFunc(s.transfers, func(x transfer) bool { return x.Fetch == f })
}

// windowSize is how many missing pieces are chosen from. In a large swarm a piece takes longer to spread, and a small
// window would leave links idle. In a small swarm a large window delays the last node.
func (s *Fetcher) windowSize() int {
	if s.Peers() >= manyPeers {
		return window * 5 / 4
	}
	return window
}

// fillWindow sets s.window to the next missing pieces without a transfer.
func (s *Fetcher) fillWindow() {
	s.window = s.window[:0]
	most := s.windowSize()
	for p := s.first; p < s.limit && len(s.window) < most; p++ {
		if !s.skip.Has(p) && s.pieces[p].transfers == 0 {
			s.window = append(s.window, p)
		}
	}
}

// fetchFromPeers takes the rarest pieces of the window from peers.
func (s *Fetcher) fetchFromPeers(now time.Duration) {
	if s.fromPeers >= peerFetches || s.used == 0 {
		return
	}
	s.fillWindow()
	for s.fromPeers < peerFetches {
		at, best := -1, 0
		var from *knownPeer
		for i, p := range s.window {
			n := s.pieces[p].holders.count()
			if n == 0 || at >= 0 && (n > best || n == best && s.o.Random.Uint32()&1 == 0) {
				continue
			}
			if k := s.choose(now, p, false); k != nil {
				at, best, from = i, n, k
			}
		}
		if at < 0 {
			return
		}
		s.begin(now, Fetch{s.window[at], from.addr})
		s.window = slices.Delete(s.window, at, at+1)
	}
}

// choose returns the peer to fetch a piece from: a holder that is not busy, with the fewest transfers and strikes. A
// busy peer is asked again sooner for an urgent piece.
func (s *Fetcher) choose(now time.Duration, p int, urgent bool) *knownPeer {
	var best *knownPeer
	n := uint32(0)
	for have := s.pieces[p].holders; have != 0; {
		k := &s.peers[have.pop()]
		if k.transfers >= 2 {
			continue
		}
		rest := k.askAfter
		if urgent {
			rest = k.urgentAfter
		}
		if rest > now {
			s.wake(rest)
			continue
		}
		switch {
		case best == nil || k.transfers+k.strikes < best.transfers+best.strikes:
			best, n = k, 1
		case k.transfers+k.strikes == best.transfers+best.strikes:
			if n++; s.o.Random.Uint32N(n) == 0 {
				best = k
			}
		}
	}
	return best
}

// joinAgain announces the node again while the tracker is lost or peers are few. The pause grows, because the node may
// be the only one.
func (s *Fetcher) joinAgain(now time.Duration) {
	if s.tracker && !s.forgotten && (s.Peers() >= fewPeers || s.missing == 0) {
		return
	}
	if now < s.joinAt {
		s.wake(s.joinAt)
		return
	}
	most := rejoinMax
	if s.missing == 0 {
		most = keepAliveEvery
	}
	s.joinWait = max(min(max(minRejoin, 2*s.joinWait), most), s.delay/2)
	s.joinAt = now + s.joinWait
	s.step.Join, s.forgotten = true, false
}
