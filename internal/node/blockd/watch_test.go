package blockd

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pando/internal/blockapi"
	"pando/internal/chunk"
	"pando/internal/store"
	"pando/internal/swarm/peer"
)

func TestSourceWatch(t *testing.T) {
	l := testLedger(t)
	w := newSourceWatch(l)
	now := time.Unix(0, 0)
	w.now = func() time.Time { return now }
	id := chunk.Sum([]byte("x"))
	wrong := fmt.Errorf("get: %w", &chunk.WrongBytesError{Want: id, Size: 9})
	expect := func(step string, kinds ...blockapi.IncidentKind) {
		t.Helper()
		got := l.incidents(0)
		if len(got) != len(kinds) {
			t.Fatalf("%s: %d incidents, want %v: %+v", step, len(got), kinds, got)
		}
		for i, k := range kinds {
			if got[i].Kind != k {
				t.Errorf("%s: incident %d is %s, want %s", step, i, got[i].Kind, k)
			}
		}
	}
	w.Failed("a", id, errors.New("refused"))
	expect("one failure is none")
	w.Failed("a", id, errors.New("refused"))
	w.Failed("a", id, errors.New("refused"))
	expect("two in a row", blockapi.ServerDown)
	w.Received("b", 100)
	expect("another answers", blockapi.ServerDown)
	w.Received("a", 50)
	expect("it is back", blockapi.ServerDown, blockapi.ServerUp)
	w.Failed("a", id, wrong)
	w.Failed("a", id, wrong)
	expect("wrong bytes, told once", blockapi.ServerDown, blockapi.ServerUp, blockapi.WrongBytes)
	w.Failed("b", id, wrong)
	expect("wrong bytes of another", blockapi.ServerDown, blockapi.ServerUp, blockapi.WrongBytes, blockapi.WrongBytes)
	now = now.Add(2 * time.Minute)
	w.Failed("a", id, wrong)
	expect(
		"and again later",
		blockapi.ServerDown,
		blockapi.ServerUp,
		blockapi.WrongBytes,
		blockapi.WrongBytes,
		blockapi.WrongBytes,
	)
	w.Failed("a", id, fmt.Errorf("get: %w", store.ErrMissing))
	expect(
		"missing",
		blockapi.ServerDown,
		blockapi.ServerUp,
		blockapi.WrongBytes,
		blockapi.WrongBytes,
		blockapi.WrongBytes,
		blockapi.Missing,
	)
	st := l.status(0)
	if st.Rejected != 4 || st.Failures != 4 || st.Fetches != 2 || st.Bytes["server"] != 150 || w.server() != "a" {
		t.Errorf("status %+v, server %s", st, w.server())
	}
	if i := st.Incidents[2]; i.Source != "a" || i.Object != id.Name() {
		t.Errorf("incident of wrong bytes: %+v", i)
	}
}

// A tracker that lost its state and one that is down are both on the timeline, with different texts. So is that it
// answers again.
func TestLostTrackerIsTold(t *testing.T) {
	for _, x := range []struct {
		err  error
		want string
	}{{peer.ErrForgotten, "has forgotten"}, {errors.New("refused"), "refused"}} {
		l := testLedger(t)
		w := swarmWatch{newSourceWatch(l)}
		for _, err := range []error{nil, x.err, x.err, nil} {
			w.Tracker("http://192.0.2.1:80", err)
		}
		got := l.incidents(0)
		if len(got) != 2 || got[0].Kind != blockapi.TrackerLost || !strings.Contains(got[0].Message, x.want) ||
			got[1].Kind != blockapi.TrackerUp {
			t.Errorf("%v: told %+v", x.err, got)
		}
	}
}

// Time in which several reads wait counts once, and only if one of them waits longer than a second.
func TestStallIsAUnion(t *testing.T) {
	l := testLedger(t)
	s := newStall(l)
	now := time.Unix(1000, 0)
	s.now = func() time.Time { return now }
	pass := func(d time.Duration) { now = now.Add(d) }
	expect := func(step string, want time.Duration) {
		t.Helper()
		if got := time.Duration(l.get(countStalled)); got != want {
			t.Errorf("%s: stalled %v, want %v", step, got, want)
		}
	}
	quick := s.begin()
	pass(999 * time.Millisecond)
	quick()
	expect("quick read", 0)
	first := s.begin()
	pass(5 * time.Second)
	second := s.begin()
	pass(5 * time.Second)
	if n := s.flush(); n != 2 {
		t.Errorf("%d reads wait, want 2", n)
	}
	expect("two wait", 10*time.Second)
	pass(time.Second)
	first()
	second()
	expect("both came back", 11*time.Second)
	pass(time.Minute)
	s.flush()
	expect("nobody waits", 11*time.Second)
}
