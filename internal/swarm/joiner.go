package swarm

import (
	"net/netip"
	"time"
)

// startHedge is how long a boot waits for the answer of one tracker before it asks the next server's as well: one
// that holds its answer and one that hangs look the same.
const startHedge = 2 * time.Second

// StartAsks decide which trackers a boot asks for who has what it starts with, preferred first, and when again.
// They wait while one says so, for startMost at most, and not for one that is not there, or slow while there is
// another. They have no socket, goroutine or clock.
type StartAsks struct {
	began    time.Duration
	trackers []startTracker
	asked    int // of them, from the first on
	failed   int
	help     StartHelp
	over     bool
}

// startTracker is one of the trackers, as a boot that starts sees it.
type startTracker struct {
	first time.Duration // when it was asked first
	last  time.Duration // and last
	again time.Duration // when it is asked again; 0: it is asked now, or gone
	late  time.Duration // that it says word may be on its way
}

// StartTry is a question to a tracker, whose answer is waited for so long.
type StartTry struct {
	Tracker  int
	Patience time.Duration
}

// StartAnswer is what a tracker says to a boot that starts.
type StartAnswer struct {
	Peers []netip.AddrPort // none: a server has it
	Again bool             // but ask here once more before: there is no room
	Late  time.Duration
}

// StartHelp is what a boot that starts learned of the trackers.
type StartHelp struct {
	// they serve manifest, signature and map at the paths of a server's data path; none: a server has them
	Peers   []netip.AddrPort
	Late    time.Duration // word may be on its way for so long; 0: no longer than usual
	Tracker int           // which of the trackers says so
	Said    Control       // what it took
}

// Control is what a node and trackers said to each other, without HTTP's headers.
type Control struct {
	Messages int64 // of the node
	Bytes    int64 // with their answers
}

// NewStartAsks are those of a boot that knows so many trackers.
func NewStartAsks(now time.Duration, trackers int) *StartAsks {
	return &StartAsks{began: now, trackers: make([]startTracker, trackers), over: trackers == 0}
}

// Next is whom to ask now, and when to call it again if no answer comes before; 0: not at all.
func (s *StartAsks) Next(now time.Duration) (asks []StartTry, wake time.Duration) {
	if s.over {
		return nil, 0
	}
	for i := range s.trackers[:s.asked] {
		switch t := &s.trackers[i]; {
		case t.again == 0:
		case now >= t.again:
			asks = append(asks, s.ask(now, i))
		default:
			wake = Earlier(wake, t.again)
		}
	}
	hedges := int((now - s.began) / startHedge)
	for ; s.asked < min(1+hedges+s.failed, len(s.trackers)); s.asked++ {
		s.trackers[s.asked].first = now
		asks = append(asks, s.ask(now, s.asked))
	}
	if s.asked < len(s.trackers) {
		wake = Earlier(wake, s.began+time.Duration(hedges+1)*startHedge)
	}
	return asks, wake
}

func (s *StartAsks) ask(now time.Duration, i int) StartTry {
	t := &s.trackers[i]
	t.last, t.again = now, 0
	return StartTry{i, StartPatience(t.late)}
}

// Told takes the answer of a tracker. One that does not say that it is to be asked again ends the asking.
func (s *StartAsks) Told(now time.Duration, tracker int, a StartAnswer) {
	t := &s.trackers[tracker]
	t.late = Bounded(a.Late)
	s.help = StartHelp{Late: t.late, Tracker: tracker}
	if a.Again && len(a.Peers) == 0 && now-t.first <= startMost {
		t.again = max(now, t.last+startPause)
		return
	}
	s.over = true
	for _, p := range a.Peers[:min(len(a.Peers), startNames)] {
		if p.IsValid() {
			s.help.Peers = append(s.help.Peers, p)
		}
	}
}

// Failed is a tracker that did not answer, or not what it should have.
func (s *StartAsks) Failed() {
	s.failed++
	s.over = s.over || s.failed == len(s.trackers)
}

// Help is what came of it, and whether it is over: until then what was said last holds.
func (s *StartAsks) Help() (h StartHelp, over bool) { return s.help, s.over }
