package boot

import (
	"runtime"
	"testing"
	"time"
)

func TestProcessors(t *testing.T) {
	for _, x := range []struct {
		now  int
		busy float64
		want int
	}{{1, 0, 1}, {1, 0.5, 1}, {1, 0.9, 2}, {2, 1.8, 2}, {2, 0.5, 2}, {2, 0.1, 1}} {
		if got := processors(x.now, x.busy); got != x.want {
			t.Errorf("%d processors, %v of one busy: %d, want %d", x.now, x.busy, got, x.want)
		}
	}
}

// A daemon that has much to do gets a second processor, and one that has nothing to do gives it back.
func TestThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	d := newThreads()
	d.most = 2 // whatever this machine has
	is := func(want int) {
		t.Helper()
		d.look()
		if got := runtime.GOMAXPROCS(0); got != want {
			t.Errorf("%d processors, want %d", got, want)
		}
	}
	is(1)
	d.since, d.spent = time.Now().Add(-2*time.Second), d.spent-2*time.Second
	is(2)
	d.spent -= 2 * time.Second // a moment later, whatever was spent in it
	is(2)
	d.since, d.spent = time.Now().Add(-time.Hour), ownTime()
	is(1)
}
