package swarm

import (
	"net/netip"
	"time"
)

// joinHedge is how long a node waits for one tracker before it asks the next server's as well: a tracker that holds
// its reply looks like one that hangs.
const joinHedge = 2 * time.Second

// Joiner decides which trackers a booting node asks for its bootstrap files, and when. It prefers the first ones,
// repeats a request if a tracker tells it to, for at most joinMax, and skips one that is down or slow.
type Joiner struct {
	began    time.Duration
	trackers []joinTracker
	tried    int // from the first on
	failed   int
	result   JoinResult
	over     bool
}

// joinTracker is what a Joiner knows of one tracker.
type joinTracker struct {
	first time.Duration // when it was asked first
	last  time.Duration // and last
	again time.Duration // when it is asked again; 0: it is being asked, or gone
	delay time.Duration // announce delay that it told
}

// JoinAttempt is a request to a tracker, with the time to wait for its reply.
type JoinAttempt struct {
	Tracker int
	Timeout time.Duration
}

// JoinReply is the reply of a tracker to a join request.
type JoinReply struct {
	Peers         []netip.AddrPort // they have the files; none: the server has them
	Again         bool             // ask again before turning to the server: it has no room now
	AnnounceDelay time.Duration
}

// JoinResult is what a booting node learned of the trackers.
type JoinResult struct {
	// They serve the bootstrap files at the paths of a server; none: a server does.
	Peers         []netip.AddrPort
	AnnounceDelay time.Duration // 0: as usual
	Tracker       int           // the one that answered
	Control       Control       // what it took
}

// Control counts the traffic between a node and trackers, without HTTP headers.
type Control struct {
	Messages int64 // sent by the node
	Bytes    int64 // of messages and replies
}

// NewJoiner returns the decisions for a node that knows so many trackers.
func NewJoiner(now time.Duration, trackers int) *Joiner {
	return &Joiner{began: now, trackers: make([]joinTracker, trackers), over: trackers == 0}
}

// Next returns the requests to send now, and when to call it again if no reply comes before; 0: no need.
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

// Answered takes the reply of a tracker. It ends the join, unless the tracker is to be asked again.
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

// Failed says that a tracker gave no valid reply.
func (s *Joiner) Failed() {
	s.failed++
	s.over = s.over || s.failed == len(s.trackers)
}

// Result is the outcome, and whether the join is over; until then it is the last reply.
func (s *Joiner) Result() (h JoinResult, over bool) { return s.result, s.over }
