package swarm

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

func wantTries(t *testing.T, what string, s *StartAsks, now, wake time.Duration, want ...int) {
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

// One tracker after the other is asked: the next one when one failed, or after a while beside the first. The first
// answer holds.
func TestStartAsksTrackersInTurn(t *testing.T) {
	s := NewStartAsks(time.Second, 4)
	now := time.Second
	wantTries(t, "first", s, now, now+startHedge, 0)
	wantTries(t, "while it is asked", s, now+ms, now+startHedge)
	s.Failed()
	wantTries(t, "it failed", s, now+2*ms, now+startHedge, 1)
	wantTries(t, "the next one hangs", s, now+startHedge, now+2*startHedge, 2)
	s.Told(now+startHedge+ms, 2, StartAnswer{Peers: []netip.AddrPort{at(1), {}, at(2), at(3)}, Late: time.Hour})
	h, over := s.Help()
	if !over || h.Tracker != 2 || h.Late != LateMost || !slices.Equal(h.Peers, []netip.AddrPort{at(1)}) {
		t.Errorf("over %v, %+v", over, h)
	}
	wantTries(t, "afterwards", s, time.Hour, 0)
	for n := range 3 {
		s := NewStartAsks(0, n)
		for range n {
			if _, over := s.Help(); over {
				t.Errorf("of %d trackers not all failed, and it is over", n)
			}
			s.Next(0)
			s.Failed()
		}
		if h, over := s.Help(); !over || h.Peers != nil {
			t.Errorf("%d trackers failed: %v, %+v", n, over, h)
		}
	}
}

// A tracker that says so is asked again, after a pause and with the patience that its word needs, for two minutes.
func TestStartIsAskedAgainForAWhile(t *testing.T) {
	s := NewStartAsks(0, 1)
	wantTries(t, "first", s, 0, 0, 0)
	again := StartAnswer{Again: true, Late: 3 * time.Second}
	s.Told(ms, 0, again)
	wantTries(t, "too soon", s, 2*ms, startPause)
	tries, _ := s.Next(startPause)
	if len(tries) != 1 || tries[0].Patience != StartPatience(3*time.Second) {
		t.Errorf("asks %+v", tries)
	}
	if h, over := s.Help(); over || h.Late != 3*time.Second {
		t.Errorf("over %v, %+v: what it said last holds", over, h)
	}
	s.Told(startMost+ms, 0, again)
	if h, over := s.Help(); !over || h.Peers != nil {
		t.Errorf("after %s: over %v, %+v", startMost, over, h)
	}
}
