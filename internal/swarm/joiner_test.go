package swarm

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

func wantTries(t *testing.T, what string, s *Joiner, now, wake time.Duration, want ...int) {
	t.Helper()
	tries, next := s.Next(now)
	var got []int
	for _, x := range tries {
		got = append(got, x.Tracker)
	}
	if !slices.Equal(got, want) || next != wake {
		t.Errorf("%s: asks %v and wakes at %s, want %v and %s", what, got, next, want, wake)
	}
}

// The next tracker is asked when one failed, or after joinHedge while the first is still open. The first answer counts.
func TestJoinTriesEachTracker(t *testing.T) {
	s := NewJoiner(time.Second, 4)
	now := time.Second
	wantTries(t, "first", s, now, now+joinHedge, 0)
	wantTries(t, "while it is asked", s, now+ms, now+joinHedge)
	s.Failed()
	wantTries(t, "it failed", s, now+2*ms, now+joinHedge, 1)
	wantTries(t, "the next one hangs", s, now+joinHedge, now+2*joinHedge, 2)
	s.Answered(
		now+joinHedge+ms,
		2,
		JoinReply{Peers: []netip.AddrPort{at(1), {}, at(2), at(3)}, AnnounceDelay: time.Hour},
	)
	h, over := s.Result()
	if !over || h.Tracker != 2 || h.AnnounceDelay != MaxAnnounceDelay ||
		!slices.Equal(h.Peers, []netip.AddrPort{at(1)}) {
		t.Errorf("over %v, %+v", over, h)
	}
	wantTries(t, "afterwards", s, time.Hour, 0)
	for n := range 3 {
		s := NewJoiner(0, n)
		for range n {
			if _, over := s.Result(); over {
				t.Errorf("of %d trackers not all failed, and it is over", n)
			}
			s.Next(0)
			s.Failed()
		}
		if h, over := s.Result(); !over || h.Peers != nil {
			t.Errorf("%d trackers failed: %v, %+v", n, over, h)
		}
	}
}

// A tracker that answers "again" is asked again after a pause, with a timeout that covers its announce delay, for two
// minutes.
func TestJoinIsRepeatedForAWhile(t *testing.T) {
	s := NewJoiner(0, 1)
	wantTries(t, "first", s, 0, 0, 0)
	again := JoinReply{Again: true, AnnounceDelay: 3 * time.Second}
	s.Answered(ms, 0, again)
	wantTries(t, "too soon", s, 2*ms, joinPause)
	tries, _ := s.Next(joinPause)
	if len(tries) != 1 || tries[0].Timeout != JoinTimeout(3*time.Second) {
		t.Errorf("asks %+v", tries)
	}
	if h, over := s.Result(); over || h.AnnounceDelay != 3*time.Second {
		t.Errorf("over %v, %+v: what it said last holds", over, h)
	}
	s.Answered(joinMax+ms, 0, again)
	if h, over := s.Result(); !over || h.Peers != nil {
		t.Errorf("after %s: over %v, %+v", joinMax, over, h)
	}
}
