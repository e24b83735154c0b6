package peer

import (
	"net/netip"
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
			continue
		}
		s.cancel(f.Fetch)
		s.learn(limit) // if all are slow, it is this network that is
		s.pieces[f.Piece].failed++
		if k := s.find(f.Peer); k != nil {
			s.strike(now, k, true)
		}
	}
}

// slowest is how long a transfer from a peer may take. What the server needs bounds it too: a node's only peer may be the slow one.
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

// patience is how long a demand waits before the origin is asked, which sends the piece once more. While the tracker says who
// fetches what, and peers are as fast as ever, a piece that does not come is one that others wait for too: a storm of boots
// that each ask the origin for it is slower for all of them.
func (s *Swarm) patience() time.Duration {
	switch {
	case !s.tracker:
		return s.hedge()
	case s.coming == 0 && s.learned < learnLeast: // too little is known of this network yet
		return wordTime(s.late)
	}
	return max(hedgeMost, calmFactor*s.typical, 2*s.coming, lateCalm*s.late)
}

// Loose says how many loose objects reads wait for. While they do, nothing more is fetched ahead on the same link; but not for long: one that does not
// come shall not hold up all others.
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
func (s *Swarm) waitedFor(p int) bool {
	return slices.ContainsFunc(s.demands, func(d demand) bool { return d.piece == p })
}

// demandFirst sees to the pieces that a read waits for: a peer at once. After one that failed or was slow comes the origin, once for
// each demand, or where there is a tracker the question whether it may.
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

// look fills s.window with the next pieces that are missing and are not on their way.
func (s *Swarm) look() {
	s.window = s.window[:0]
	for p := s.first; p < s.reach && len(s.window) < s.o.Window; p++ {
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

// choose returns the peer to take a piece from: one that has it and is not busy, with the fewest transfers and strikes. If a read waits for the
// piece, one that was busy is asked again sooner.
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

// fromServer asks the tracker for what no known peer has, or the origin when there is no tracker.
func (s *Swarm) fromServer(now time.Duration) {
	lost := s.asked + answerTime(s.late)
	if s.asking && now >= lost {
		s.Lost(now)
	}
	if s.asking {
		s.wake(lost)
	}
	// Half of the transfers under way are enough to ask for more; with one question for each piece, a node that is alone would
	// ask hundreds of times.
	if s.originFlights > s.o.ServerFetches/2 || s.tracker && (s.asking || len(s.granted) > 0) {
		return
	}
	s.look()
	if !s.tracker {
		if !s.pressed(now) {
			s.untracked(now)
		}
		return
	}
	if s.silent != 0 && now < s.hear { // who comes late need not ask the server for what all others have
		s.wake(s.hear)
		return
	}
	a := Ask{Max: s.o.ServerFetches - s.originFlights}
	if s.reach < s.o.Pieces {
		a.Upto = s.reach
	}
	s.demanded()
	if s.pressed(now) { // what no read waits for stays out of the way
		s.window = slices.DeleteFunc(s.window, func(p int) bool { return !s.waitedFor(p) })
	}
	s.overdue(now, &a)
	for _, p := range s.window {
		st := &s.pieces[p]
		switch {
		case st.holders != 0 || len(a.Want) >= s.o.Window:
		case st.coming > now:
			s.wake(st.coming)
		default:
			a.Want = append(a.Want, p)
		}
	}
	if len(a.Want) > 0 {
		a.Have, a.Left, a.Fed, a.Patience, a.Read = s.have, s.leftNow(now), s.fed, answerTime(s.late), s.soonRead(a.Want)
		s.asking, s.asked, s.told, s.step.Ask = true, now, false, &a
	}
}

// demanded moves those pieces of the window to its front that reads wait for, the oldest read first.
func (s *Swarm) demanded() {
	front := 0
	for _, d := range s.demands {
		if i := slices.Index(s.window[front:], d.piece); i >= 0 {
			s.window = slices.Insert(slices.Delete(s.window, front+i, front+i+1), front, d.piece)
			front++
		}
	}
}

// overdue adds the pieces that reads wait for to a question: those that are not among the next ones, and those that peers have and
// are late with. A server that has room sends them, and one that has none says who else has them.
func (s *Swarm) overdue(now time.Duration, a *Ask) {
	for _, d := range s.demands {
		st := &s.pieces[d.piece]
		late := d.since + s.hedge()
		if st.failed > 0 {
			late = now
		}
		switch {
		case len(a.Want) >= s.o.Window || st.holders == 0 && (st.flights > 0 || slices.Contains(s.window, d.piece)):
		case d.hedged:
		case st.holders != 0 && now < late:
			s.wake(late)
		case st.coming > now:
			s.wake(st.coming)
		default:
			a.Want = append(a.Want, d.piece)
		}
	}
}

// soonRead are those of some pieces that reads wait for, and the next ones: an answer may be held until reads wait for them.
func (s *Swarm) soonRead(want []int) (out []int) {
	for i, p := range want {
		if i < readSoon || s.waitedFor(p) {
			out = append(out, p)
		}
	}
	return out
}

// untracked takes from the origin what no known peer has. With nobody to tell who takes what, nodes that have peers take
// one piece at a time, by chance, so that they take different ones; a node that has none takes all, in order.
func (s *Swarm) untracked(now time.Duration) {
	s.window = slices.DeleteFunc(s.window, func(p int) bool { return s.pieces[p].holders != 0 })
	most := s.o.ServerFetches / 2
	if s.used != 0 {
		most = 1
	}
	for len(s.window) > 0 && s.originFlights < most {
		i := 0
		if s.used != 0 {
			i = s.o.Random.IntN(len(s.window))
		}
		s.take(now, Fetch{Piece: s.window[i]})
		s.window = slices.Delete(s.window, i, i+1)
	}
}

// Answer is what the tracker says to an Ask.
type Answer struct {
	Grant []int         // fetch these from the server now
	Named []Named       // these are on their way to others, or there already
	Wait  time.Duration // ask for the named ones again after so long
	Late  time.Duration // see Tracker.Late

	Banned []netip.Addr // for all, since the node was last told
}

// Answer takes the tracker's answer to the question that is open. It returns who is to be met beside the peers that are
// known: those that have, or will have, what a read waits for.
func (s *Swarm) Answer(now time.Duration, a Answer) (meet []netip.AddrPort) {
	s.asking, s.coming = false, a.Wait
	s.Bear(a.Late)
	for _, b := range a.Banned {
		s.Ban(b)
	}
	s.granted = append(s.granted, a.Grant...)
	for _, n := range a.Named {
		if n.Piece < 0 || n.Piece >= s.o.Pieces {
			continue
		}
		s.pieces[n.Piece].coming = now + a.Wait
		if s.waitedFor(n.Piece) {
			meet = append(meet, n.Peers...)
		}
	}
	return meet
}

// Lost says that the tracker did not answer: from here on the origin is asked.
func (s *Swarm) Lost(now time.Duration) { s.Tracking(now, false) }

// grants starts what the tracker allowed, as many at a time as may run.
func (s *Swarm) grants(now time.Duration) {
	i := 0
	for ; i < len(s.granted) && s.originFlights < s.o.ServerFetches; i++ {
		p := s.granted[i]
		if p >= 0 && p < s.o.Pieces && !s.have.Has(p) && !s.flying(Fetch{Piece: p}) {
			s.take(now, Fetch{Piece: p})
		}
	}
	s.granted = slices.Delete(s.granted, 0, i)
}

// alive says now and then that this node lives, while it has nothing to ask: who comes late shall be told of it. The first
// time is as soon as it has all it wants, because of one who last asked for something the tracker expects more questions, and forgets
// him soon.
func (s *Swarm) alive(now time.Duration) {
	due := s.asked + joinSeldom
	switch {
	case s.told:
	case s.missing == 0:
		due = now
	default:
		due = s.asked + askPause
	}
	switch {
	case !s.tracker || s.asking:
	case now < due:
		s.wake(due)
	default:
		s.asking, s.asked, s.told, s.step.Ask = true, now, true, &Ask{Have: s.have, Left: s.leftNow(now), Fed: s.fed, Patience: answerTime(s.late)}
	}
}

// Forgotten says that the tracker does not know this node: it joins again at once.
func (s *Swarm) Forgotten(now time.Duration) {
	// What was asked stays open: it is not put again before the join is answered.
	s.asking, s.asked, s.joinAt, s.forgotten, s.rejoin = true, now, now, true, true
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
