package swarm

import (
	"net/netip"
	"time"
)

// joinHedge is how long a node waits for one tracker before it also asks the next server's tracker. A tracker that
// holds a request open looks like one that hangs.
const joinHedge = 2 * time.Second

// Joiner decides which trackers a booting node asks for its bootstrap files, and when. It asks them in order of
// preference. It repeats a request if the tracker tells it to, for at most joinMax. It goes on to the next tracker if
// one is down or slow.
type Joiner struct {
	began    time.Duration
	trackers []joinTracker
	tried    int // number of trackers asked so far
	failed   int
	result   JoinResult
	over     bool
}

// joinTracker is what a Joiner knows of one tracker.
type joinTracker struct {
	first time.Duration // when the tracker was asked first
	last  time.Duration // when it was asked last
	again time.Duration // when it is asked again; 0: a request is open, or it failed
	delay time.Duration // announce delay that the tracker told
}

// JoinAttempt is a request to a tracker, with the time to wait for its reply.
type JoinAttempt struct {
	Tracker int
	Timeout time.Duration
}

// JoinReply is the reply of a tracker to a join request.
type JoinReply struct {
	Peers         []netip.AddrPort // nodes that have the files; none: the server has them
	Again         bool             // repeat the request before asking the server: it has no room now
	AnnounceDelay time.Duration
}

// JoinResult is what a booting node learned of the trackers.
type JoinResult struct {
	// Peers serve the bootstrap files at the same paths as a server. None: a server sends them.
	Peers         []netip.AddrPort
	AnnounceDelay time.Duration // 0: as usual
	Tracker       int           // index of the tracker that answered
	Control       Control       // traffic with the trackers
}

// Control counts the traffic between a node and trackers, without HTTP headers.
type Control struct {
	Messages int64 // sent by the node
	Bytes    int64 // of messages and replies
}

// NewJoiner returns the decisions for a node that knows that number of trackers.
func NewJoiner(now time.Duration, trackers int) *Joiner {
	return &Joiner{began: now, trackers: make([]joinTracker, trackers), over: trackers == 0}
}

// Next returns the requests to send now, and when to call it again if no reply arrives before; 0: no need.
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

// Failed notes that a tracker gave no valid reply.
func (s *Joiner) Failed() {
	s.failed++
	s.over = s.over || s.failed == len(s.trackers)
}

// Result returns the result, and whether the join is over. Until then the result is that of the last reply.
func (s *Joiner) Result() (h JoinResult, over bool) { return s.result, s.over }
