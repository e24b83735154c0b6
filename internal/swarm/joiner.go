package swarm

import (
	"net/netip"
	"time"
)

// startHedge is how long a boot waits for the answer of one tracker before it asks the next server's as well: one
// that holds its answer and one that hangs look the same.
const joinHedge = 2 * time.Second

// StartAsks decide which trackers a boot asks for who has what it starts with, preferred first, and when again.
// They wait while one says so, for startMost at most, and not for one that is not there, or slow while there is
// another. They have no socket, goroutine or clock.
type Joiner struct {
	began    time.Duration
	trackers []joinTracker
	tried    int // of them, from the first on
	failed   int
	result   JoinResult
	over     bool
}

// startTracker is one of the trackers, as a boot that starts sees it.
type joinTracker struct {
	first time.Duration // when it was asked first
	last  time.Duration // and last
	again time.Duration // when it is asked again; 0: it is asked now, or gone
	delay time.Duration // that it says word may be on its way
}

// StartTry is a question to a tracker, whose answer is waited for so long.
type JoinAttempt struct {
	Tracker int
	Timeout time.Duration
}

// StartAnswer is what a tracker says to a boot that starts.
type JoinReply struct {
	Peers         []netip.AddrPort // none: a server has it
	Again         bool             // but ask here once more before: there is no room
	AnnounceDelay time.Duration
}

// StartHelp is what a boot that starts learned of the trackers.
type JoinResult struct {
	// they serve manifest, signature and map at the paths of a server's data path; none: a server has them
	Peers         []netip.AddrPort
	AnnounceDelay time.Duration // word may be on its way for so long; 0: no longer than usual
	Tracker       int           // which of the trackers says so
	Control       Control       // what it took
}

// Control is what a node and trackers said to each other, without HTTP's headers.
type Control struct {
	Messages int64 // of the node
	Bytes    int64 // with their answers
}

// NewStartAsks are those of a boot that knows so many trackers.
func NewJoiner(now time.Duration, trackers int) *Joiner {
	return &Joiner{began: now, trackers: make([]joinTracker, trackers), over: trackers == 0}
}

// Next is whom to ask now, and when to call it again if no answer comes before; 0: not at all.
func (s *Joiner) Next(now time.Duration) (asks []JoinAttempt, wake time.Duration) {
	if s.over {
		return nil, 0
	}
	for i := range s.trackers[:s.tried] {
		switch t := &s.trackers[i]; {
		case t.again == 0:
		case now >= t.again:
			asks = append(asks, s.try(now, i))
		default:
			wake = Earlier(wake, t.again)
		}
	}
	hedges := int((now - s.began) / joinHedge)
	for ; s.tried < min(1+hedges+s.failed, len(s.trackers)); s.tried++ {
		s.trackers[s.tried].first = now
		asks = append(asks, s.try(now, s.tried))
	}
	if s.tried < len(s.trackers) {
		wake = Earlier(wake, s.began+time.Duration(hedges+1)*joinHedge)
	}
	return asks, wake
}

func (s *Joiner) try(now time.Duration, i int) JoinAttempt {
	t := &s.trackers[i]
	t.last, t.again = now, 0
	return JoinAttempt{i, JoinTimeout(t.delay)}
}

// Told takes the answer of a tracker. One that does not say that it is to be asked again ends the asking.
func (s *Joiner) Answered(now time.Duration, tracker int, a JoinReply) {
	t := &s.trackers[tracker]
	t.delay = BoundDelay(a.AnnounceDelay)
	s.result = JoinResult{AnnounceDelay: t.delay, Tracker: tracker}
	if a.Again && len(a.Peers) == 0 && now-t.first <= joinMax {
		t.again = max(now, t.last+joinPause)
		return
	}
	s.over = true
	for _, p := range a.Peers[:min(len(a.Peers), bootstrapNames)] {
		if p.IsValid() {
			s.result.Peers = append(s.result.Peers, p)
		}
	}
}

// Failed is a tracker that did not answer, or not what it should have.
func (s *Joiner) Failed() {
	s.failed++
	s.over = s.over || s.failed == len(s.trackers)
}

// Help is what came of it, and whether it is over: until then what was said last holds.
func (s *Joiner) Result() (h JoinResult, over bool) { return s.result, s.over }
