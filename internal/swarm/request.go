package swarm

import (
	"net/netip"
	"slices"
	"time"
)

// askTracker requests from the tracker the pieces that no known peer has. Without a tracker they come from the origin.
func (s *Fetcher) askTracker(now time.Duration) {
	lost := s.requestedAt + MessageTimeout(s.delay)
	if s.requestOpen && now >= lost {
		s.TrackerLost(now)
	}
	if s.requestOpen {
		s.wake(lost)
	}
	// The node asks again when half of its transfers are done. A request for each piece would be hundreds.
	if s.fromOrigin > serverFetches/2 || s.tracker && (s.requestOpen || len(s.granted) > 0) {
		return
	}
	s.fillWindow()
	if !s.tracker {
		if !s.yieldsToDemand(now) {
			s.fetchFromOrigin(now)
		}
		return
	}
	if s.silent != 0 && now < s.silentUntil { // wait for the lists of the first peers: they may have all pieces
		s.wake(s.silentUntil)
		return
	}
	a := Request{Max: serverFetches - s.fromOrigin}
	if s.limit < s.o.Pieces {
		a.Limit = s.limit
	}
	s.urgentFirst()
	if s.yieldsToDemand(now) { // only urgent pieces
		s.window = slices.DeleteFunc(s.window, func(p int) bool { return !s.IsUrgent(p) })
	}
	for _, p := range s.window {
		st := &s.pieces[p]
		switch {
		case st.holders != 0 || len(a.Want) >= window:
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
		a.Have, a.Avoided, a.FromPeers, a.Timeout = s.have, s.avoidedNow(now), s.cameFromPeers, MessageTimeout(s.delay)
		s.requestOpen, s.requestedAt, s.keptAlive, s.step.Request = true, now, false, &a
	}
}

// urgentFirst puts urgent pieces at the front of the window, even those from outside of it. The oldest read is first.
func (s *Fetcher) urgentFirst() {
	front := 0
	for _, d := range s.urgent {
		if s.pieces[d.piece].transfers > 0 {
			continue
		}
		if i := slices.Index(s.window[front:], d.piece); i >= 0 {
			s.window = slices.Delete(s.window, front+i, front+i+1)
		}
		s.window = slices.Insert(s.window, front, d.piece)
		front++
	}
}

// addBeyondWindow requests pieces behind the window when peers have all pieces of the window. Without this, a node that
// is a window ahead of the others would be the only one to ask. It would get all pieces from the server, stay ahead,
// and its uplink would feed all others.
func (s *Fetcher) addBeyondWindow(now time.Duration, a *Request) {
	for p := s.first; p < s.limit && len(a.Want) < window; p++ {
		if st := &s.pieces[p]; !s.skip.Has(p) && st.holders == 0 && st.transfers == 0 && st.notBefore <= now {
			a.Want = append(a.Want, p)
		}
	}
}

// countUrgent returns how many pieces of a request are urgent, or may be when the reply arrives.
func (s *Fetcher) countUrgent(want []int) int {
	n := 0
	for n < len(want) && (n < urgentAhead || s.IsUrgent(want[n])) {
		n++
	}
	return n
}

// fetchFromOrigin fetches from the origin, without a tracker, the pieces that no known peer has. A node with peers
// takes one random piece at a time, so that nodes take different ones. A node without peers takes all in order.
func (s *Fetcher) fetchFromOrigin(now time.Duration) {
	s.window = slices.DeleteFunc(s.window, func(p int) bool { return s.pieces[p].holders != 0 })
	most := serverFetches / 2
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

// Answer is the tracker's answer to a piece request.
type Answer struct {
	Grant         []int         // fetch these from the server now
	Held          []HeldPiece   // other nodes have these or are getting them
	RetryAfter    time.Duration // pause before a held piece is requested again
	AnnounceDelay time.Duration // see Tracker.AnnounceDelay

	Banned []netip.Addr // new bans since the last answer
}

// Answered takes the answer to the open request. It returns holders of urgent pieces, to be added as peers.
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

// TrackerLost tells the fetcher that the tracker did not answer. Missing pieces now come from the origin.
func (s *Fetcher) TrackerLost(now time.Duration) { s.SetTracker(now, false) }

// startGranted starts granted transfers, up to serverFetches at a time.
func (s *Fetcher) startGranted(now time.Duration) {
	i := 0
	for ; i < len(s.granted) && s.fromOrigin < serverFetches; i++ {
		p := s.granted[i]
		if p >= 0 && p < s.o.Pieces && !s.have.Has(p) && !s.isRunning(Fetch{Piece: p}) {
			s.begin(now, Fetch{Piece: p})
		}
	}
	s.granted = slices.Delete(s.granted, 0, i)
}

// keepAlive sends a keep-alive while there is nothing to request.
func (s *Fetcher) keepAlive(now time.Duration) {
	due := s.requestedAt + keepAliveFirst
	if s.keptAlive {
		due = s.requestedAt + keepAliveEvery
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
			Timeout:   MessageTimeout(s.delay),
		}
	}
}

// TrackerForgot notes that the tracker does not know this node, which then announces itself at once.
func (s *Fetcher) TrackerForgot(now time.Duration) {
	// The open request is repeated after the announcement.
	s.requestOpen, s.requestedAt, s.joinAt, s.forgotten, s.rejoining = true, now, now, true, true
}
