package rootwatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/blockapi"
)

// A root is lost if the daemon does not answer for long, and a read of the device hangs all the time. A node that
// waits for its servers is not lost, nor one whose daemon was replaced or cannot be reached while reads are answered.
func TestRootIsLost(t *testing.T) {
	const always = 10 * lostAfter
	for _, tt := range []struct {
		name  string
		looks int
		sees  func(look int) seen
		lost  bool
	}{
		{"nobody is there", lostAfter, func(int) seen { return seen{hangs: true} }, true},
		{"nobody is there, not for long", lostAfter - 1, func(int) seen { return seen{hangs: true} }, false},
		{"the kernel's end is dead", lostAfter, func(int) seen { return seen{answers: true, hangs: true} }, true},
		{"no server answers", always, func(int) seen { return seen{answers: true, hangs: true, waiting: 1} }, false},
		{"its socket is gone, reads are answered", always, func(int) seen { return seen{} }, false},
		{"all is well", always, func(int) seen { return seen{answers: true} }, false},
		{"daemons die again and again", always, func(n int) seen {
			return seen{answers: n%(lostAfter-1) == 0, waiting: 3, hangs: true}
		}, false},
	} {
		var j judge
		lost := false
		for n := range tt.looks {
			lost = lost || j.lost(tt.sees(n))
		}
		if lost != tt.lost {
			t.Errorf("%s: lost is %v", tt.name, lost)
		}
	}
}

// daemon is a block daemon as the watch sees it.
type daemon struct {
	gone    bool
	waiting int
}

func (d *daemon) Status(context.Context, int64) (blockapi.Status, error) {
	if d.gone {
		return blockapi.Status{}, errors.New("connection refused")
	}
	return blockapi.Status{Waiting: d.waiting}, nil
}

// The device is read only if something is wrong, with one read at a time.
func TestReadsOfTheDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, reads, inFlight, answered := &daemon{}, 0, false, make(chan struct{})
		w := New(0, d, nil, nil)
		w.inFlight = func() bool { return inFlight }
		w.read = func() {
			reads++
			<-answered
		}
		look := func() seen {
			s := w.look(t.Context())
			synctest.Wait()
			return s
		}
		for range 3 {
			look()
		}
		inFlight, d.waiting = true, 2
		if s := look(); reads != 0 || s.hangs {
			t.Errorf("of a healthy device there are %d reads: %+v", reads, s)
		}
		d.gone = true
		for range 3 {
			look()
		}
		if s := look(); reads != 1 || !s.hangs || s.answers {
			t.Errorf("of a dead one there are %d reads: %+v", reads, s)
		}
		close(answered)
		synctest.Wait()
		d.gone = false
		if s := look(); s.hangs || !s.answers {
			t.Errorf("once it is back: %+v", s)
		}
		d.waiting = 0 // the kernel waits for reads that the daemon does not have
		if look(); reads != 2 {
			t.Errorf("%d reads", reads)
		}
	})
}

// The end of the boot does not wait for calls that hang.
func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, hangs := time.Now(), make(chan struct{})
		within(syncMost, func() { <-hangs })
		if waited := time.Since(begun); waited != syncMost {
			t.Errorf("it waited %s", waited)
		}
		close(hangs)
	})
}
