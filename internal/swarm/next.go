package swarm

import (
	"slices"
	"time"
)

// Next decides what to do now. It is called after every input that may change something, and at Step.Wake.
func (s *Swarm) Next(now time.Duration) Step {
	s.step.Wake = 0
	if s.missing > 0 || len(s.demands) > 0 || len(s.flights) > 0 {
		s.slow(now)
		s.demandFirst(now)
		s.grants(now)
		if ahead := !s.pressed(now); ahead {
			s.fromPeers(now)
		}
		s.fromServer(now)
	}
	s.alive(now)
	s.meetMore(now)
	s.tellFailed(now)
	out := s.step
	s.step = Step{Fetch: s.step.Fetch[:0], Cancel: s.step.Cancel[:0]}
	return out
}

// wake makes sure that Next is called at t.
func (s *Swarm) wake(t time.Duration) {
	if s.step.Wake == 0 || t < s.step.Wake {
		s.step.Wake = t
	}
}

// slow leaves transfers from peers that take much longer than others did.
func (s *Swarm) slow(now time.Duration) {
	limit := s.slowest()
	for i := len(s.flights) - 1; i >= 0; i-- {
		f := s.flights[i]
		if f.Origin() {
			continue // the origin is the last one to turn to
		}
		if now < f.start+limit {
			s.wake(f.start + limit)
			s.doubt(now, f)
			continue
		}
		s.cancel(f.Fetch)
		s.learn(limit) // if all are slow, it is this network that is
		s.pieces[f.Piece].failed++
		if k := s.find(f.Peer); k != nil {
			s.failed(now, k, true)
			s.strike(now, k, true)
		}
	}
}

// slowest is how long a transfer from a peer may take. What the server needs bounds it too: a node's only peer may
// be the slow one.
func (s *Swarm) slowest() time.Duration {
	limit := max(slowFirst, s.coming, s.late)
	if s.learned >= learnLeast {
		limit = max(slowLeast, slowFactor*s.typical, s.coming)
	}
	if s.direct > 0 && s.Peers() < fewPeers/2 {
		limit = min(limit, max(hedgeLeast, 2*slowFactor*s.direct, s.coming))
	}
	return limit
}

// hedge is how long a demand waits for a peer. Where a transfer takes long, patience must be longer: a storm of demands
// that all give up would be plain unicast.
func (s *Swarm) hedge() time.Duration {
	return min(max(hedgeLeast, 4*s.typical), max(hedgeMost, s.late))
}

// patience is how long a demand waits before the origin is asked, which sends the piece once more. While the
// tracker says who fetches what, and peers are as fast as ever, a piece that does not come is one that others wait
// for too: a storm of boots that each ask the origin for it is slower for all of them.
func (s *Swarm) patience() time.Duration {
	switch {
	case !s.tracker:
		return s.hedge()
	case s.coming == 0 && s.learned < learnLeast: // too little is known of this network yet
		return WordTime(s.late)
	}
	return max(hedgeMost, calmFactor*s.typical, 2*s.coming, lateCalm*s.late)
}

// Loose says how many loose objects reads wait for. While they do, nothing more is fetched ahead on the same link;
// but not for long: one that does not come shall not hold up all others.
func (s *Swarm) Loose(now time.Duration, waiting int) {
	if s.loose == 0 && waiting > 0 {
		s.looseAt = now
	}
	s.loose = waiting
}

// pressed tells whether the link is to be left to a loose object.
func (s *Swarm) pressed(now time.Duration) bool {
	until := s.looseAt + s.hedge()
	if s.loose == 0 || now >= until {
		return false
	}
	s.wake(until)
	return true
}

// waitedFor tells whether a read waits for a piece.
func (s *Swarm) WaitedFor(p int) bool {
	return slices.ContainsFunc(s.demands, func(d demand) bool { return d.piece == p })
}

// demandFirst sees to the pieces that a read waits for: a peer at once. After one that failed or was slow comes the
// origin, once for each demand, or where there is a tracker the question whether it may.
func (s *Swarm) demandFirst(now time.Duration) {
	for i := range s.demands {
		d := &s.demands[i]
		p, st := d.piece, &s.pieces[d.piece]
		late := now >= d.since+s.patience()
		switch {
		case d.hedged && st.flights > 0:
			continue
		case late || !s.tracker && (st.failed > 0 || st.holders == 0):
			d.hedged = true
			if !s.flying(Fetch{Piece: p}) {
				s.take(now, Fetch{Piece: p})
			}
			continue
		case st.flights == 0:
			if k := s.choose(now, p, true); k != nil {
				s.take(now, Fetch{p, k.addr})
			}
		}
		s.wake(d.since + s.patience())
	}
}

func (s *Swarm) flying(f Fetch) bool {
	return slices.ContainsFunc(s.flights, func(x flight) bool { return x.Fetch == f })
}

// ahead is how many pieces are chosen from. A piece takes longer to come round in a large crowd, and the links run
// dry when all that is chosen from is on its way: the last of two hundred nodes had its boot set after 1.37 W/(eta
// B) with 16, and 1.32 with 20. In a small one the last pieces of the last node come late by it.
func (s *Swarm) ahead() int {
	if s.Peers() >= manyPeers {
		return s.o.Window * 5 / 4
	}
	return s.o.Window
}

// look fills s.window with the next pieces that are missing and are not on their way.
func (s *Swarm) look() {
	s.window = s.window[:0]
	most := s.ahead()
	for p := s.first; p < s.reach && len(s.window) < most; p++ {
		if !s.idle.Has(p) && s.pieces[p].flights == 0 {
			s.window = append(s.window, p)
		}
	}
}

// fromPeers takes the rarest pieces of the window from peers that have them.
func (s *Swarm) fromPeers(now time.Duration) {
	if s.peerFlights >= s.o.PeerFetches || s.used == 0 {
		return
	}
	s.look()
	for s.peerFlights < s.o.PeerFetches {
		at, best := -1, 0
		var from *known
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
		s.take(now, Fetch{s.window[at], from.addr})
		s.window = slices.Delete(s.window, at, at+1)
	}
}

// choose returns the peer to take a piece from: one that has it and is not busy, with the fewest transfers and
// strikes. If a read waits for the piece, one that was busy is asked again sooner.
func (s *Swarm) choose(now time.Duration, p int, waits bool) *known {
	var best *known
	n := uint32(0)
	for have := s.pieces[p].holders; have != 0; {
		k := &s.peers[have.pop()]
		if k.flights >= 2 {
			continue
		}
		rest := k.calm
		if waits {
			rest = k.rest
		}
		if rest > now {
			s.wake(rest)
			continue
		}
		switch {
		case best == nil || k.flights+k.strikes < best.flights+best.strikes:
			best, n = k, 1
		case k.flights+k.strikes == best.flights+best.strikes:
			if n++; s.o.Random.Uint32N(n) == 0 {
				best = k
			}
		}
	}
	return best
}

// meetMore joins again while the tracker is lost or peers are few, ever more rarely: a node may be alone.
func (s *Swarm) meetMore(now time.Duration) {
	if s.tracker && !s.forgotten && (s.Peers() >= fewPeers || s.missing == 0) {
		return
	}
	if now < s.joinAt {
		s.wake(s.joinAt)
		return
	}
	most := joinMost
	if s.missing == 0 {
		most = joinSeldom
	}
	s.joinWait = max(min(max(joinAgain, 2*s.joinWait), most), s.late/2)
	s.joinAt = now + s.joinWait
	s.step.Join, s.forgotten = true, false
}
