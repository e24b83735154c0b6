package swarm

import (
	"net/netip"
	"slices"
	"time"
)

// fromServer asks the tracker for what no known peer has, or the origin when there is no tracker.
func (s *Fetcher) askTracker(now time.Duration) {
	lost := s.requestedAt + RequestTimeout(s.delay)
	if s.requestOpen && now >= lost {
		s.TrackerLost(now)
	}
	if s.requestOpen {
		s.wake(lost)
	}
	// Half of the transfers under way are enough to ask for more; with one question for each piece, a node that is
	// alone would ask hundreds of times.
	if s.fromOrigin > s.o.ServerFetches/2 || s.tracker && (s.requestOpen || len(s.granted) > 0) {
		return
	}
	s.fillWindow()
	if !s.tracker {
		if !s.yieldsToDemand(now) {
			s.fetchFromOrigin(now)
		}
		return
	}
	if s.unheard != 0 && now < s.unheardUntil { // who comes late need not ask the server for what all others have
		s.wake(s.unheardUntil)
		return
	}
	a := Request{Max: s.o.ServerFetches - s.fromOrigin}
	if s.limit < s.o.Pieces {
		a.Limit = s.limit
	}
	s.urgentFirst()
	if s.yieldsToDemand(now) { // what no read waits for stays out of the way
		s.window = slices.DeleteFunc(s.window, func(p int) bool { return !s.IsUrgent(p) })
	}
	s.addOverdue(now, &a)
	for _, p := range s.window {
		st := &s.pieces[p]
		switch {
		case st.holders != 0 || len(a.Want) >= s.o.Window:
		case st.notBefore > now:
			s.wake(st.notBefore)
		default:
			a.Want = append(a.Want, p)
		}
	}
	a.Urgent = s.countUrgent(a.Want)
	if len(a.Want) == 0 && !s.yieldsToDemand(now) {
		s.addBeyondWindow(now, &a)
	}
	if len(a.Want) > 0 {
		a.Have, a.Avoided, a.FromPeers, a.Timeout = s.have, s.avoidedNow(now), s.cameFromPeers, RequestTimeout(s.delay)
		s.requestOpen, s.requestedAt, s.keptAlive, s.step.Request = true, now, false, &a
	}
}

// demanded moves those pieces of the window to its front that reads wait for, the oldest read first.
func (s *Fetcher) urgentFirst() {
	front := 0
	for _, d := range s.urgent {
		if i := slices.Index(s.window[front:], d.piece); i >= 0 {
			s.window = slices.Insert(slices.Delete(s.window, front+i, front+i+1), front, d.piece)
			front++
		}
	}
}

// overdue adds the pieces that reads wait for to a question: those that are not among the next ones, and those that
// peers have and are late with. A server that has room sends them, and one that has none says who else has them.
func (s *Fetcher) addOverdue(now time.Duration, a *Request) {
	for _, d := range s.urgent {
		st := &s.pieces[d.piece]
		late := d.since + s.hedgeDelay()
		if st.failed > 0 {
			late = now
		}
		switch {
		case len(a.Want) >= s.o.Window || st.holders == 0 && (st.transfers > 0 || slices.Contains(s.window, d.piece)):
		case d.fromOrigin:
		case st.holders != 0 && now < late:
			s.wake(late)
		case st.notBefore > now:
			s.wake(st.notBefore)
		default:
			a.Want = append(a.Want, d.piece)
		}
	}
}

// further asks for what comes after the window where peers have all of that, as much as one question has. Else
// whoever is ahead of all others by a window would be the only one to ask, be granted all that the server sends,
// and stay ahead, and the others would have each piece from its uplink alone: ten desktops, one of which began
// first, took 1.5 W/(eta B).
func (s *Fetcher) addBeyondWindow(now time.Duration, a *Request) {
	for p := s.first; p < s.limit && len(a.Want) < s.o.Window; p++ {
		if st := &s.pieces[p]; !s.skip.Has(p) && st.holders == 0 && st.transfers == 0 && st.notBefore <= now {
			a.Want = append(a.Want, p)
		}
	}
}

// soonRead is how many pieces of a question reads wait for, or soon will: an answer may be held until they do. What
// reads wait for is at its beginning.
func (s *Fetcher) countUrgent(want []int) int {
	n := 0
	for n < len(want) && (n < urgentAhead || s.IsUrgent(want[n])) {
		n++
	}
	return n
}

// untracked takes from the origin what no known peer has. With nobody to tell who takes what, nodes that have peers
// take one piece at a time, by chance, so that they take different ones; a node that has none takes all, in order.
func (s *Fetcher) fetchFromOrigin(now time.Duration) {
	s.window = slices.DeleteFunc(s.window, func(p int) bool { return s.pieces[p].holders != 0 })
	most := s.o.ServerFetches / 2
	if s.used != 0 {
		most = 1
	}
	for len(s.window) > 0 && s.fromOrigin < most {
		i := 0
		if s.used != 0 {
			i = s.o.Random.IntN(len(s.window))
		}
		s.begin(now, Fetch{Piece: s.window[i]})
		s.window = slices.Delete(s.window, i, i+1)
	}
}

// Answer is what the tracker says to an Ask.
type Answer struct {
	Grant         []int         // fetch these from the server now
	Held          []HeldPiece   // these are on their way to others, or there already
	RetryAfter    time.Duration // ask for the named ones again after so long
	AnnounceDelay time.Duration // see Tracker.Late

	Banned []netip.Addr // for all, since the node was last told
}

// Answer takes the tracker's answer to the question that is open. It returns who is to be met beside the peers that are
// known: those that have, or will have, what a read waits for.
func (s *Fetcher) Answered(now time.Duration, a Answer) (meet []netip.AddrPort) {
	s.requestOpen, s.retryAfter = false, a.RetryAfter
	s.SetAnnounceDelay(a.AnnounceDelay)
	for _, b := range a.Banned {
		s.Ban(b)
	}
	s.granted = append(s.granted, a.Grant...)
	for _, n := range a.Held {
		if n.Piece < 0 || n.Piece >= s.o.Pieces {
			continue
		}
		s.pieces[n.Piece].notBefore = now + a.RetryAfter
		if s.IsUrgent(n.Piece) {
			meet = append(meet, n.Peers...)
		}
	}
	return meet
}

// Lost says that the tracker did not answer: from here on the origin is asked.
func (s *Fetcher) TrackerLost(now time.Duration) { s.SetTracker(now, false) }

// grants starts what the tracker allowed, as many at a time as may run.
func (s *Fetcher) startGranted(now time.Duration) {
	i := 0
	for ; i < len(s.granted) && s.fromOrigin < s.o.ServerFetches; i++ {
		p := s.granted[i]
		if p >= 0 && p < s.o.Pieces && !s.have.Has(p) && !s.isRunning(Fetch{Piece: p}) {
			s.begin(now, Fetch{Piece: p})
		}
	}
	s.granted = slices.Delete(s.granted, 0, i)
}

// alive says now and then that this node lives, while it has nothing to ask: who comes late shall be told of it.
// The first time is as soon as it has all it wants, because of one who last asked for something the tracker expects
// more questions, and forgets him soon.
func (s *Fetcher) keepAlive(now time.Duration) {
	due := s.requestedAt + keepAliveEvery
	switch {
	case s.keptAlive:
	case s.missing == 0:
		due = now
	default:
		due = s.requestedAt + keepAliveFirst
	}
	switch {
	case !s.tracker || s.requestOpen:
	case now < due:
		s.wake(due)
	default:
		s.requestOpen, s.requestedAt, s.keptAlive, s.step.Request = true, now, true, &Request{
			Have:      s.have,
			Avoided:   s.avoidedNow(now),
			FromPeers: s.cameFromPeers,
			Timeout:   RequestTimeout(s.delay),
		}
	}
}

// Forgotten says that the tracker does not know this node: it joins again at once.
func (s *Fetcher) TrackerForgot(now time.Duration) {
	// What was asked stays open: it is not put again before the join is answered.
	s.requestOpen, s.requestedAt, s.joinAt, s.forgotten, s.rejoining = true, now, now, true, true
}
