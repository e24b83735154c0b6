package metrics

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/store"
)

func TestThrottle(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		step  time.Duration
		steps int
		part  float64 // share of the time spent on work
	}{
		{100 * time.Microsecond, 1000, 1. / throttlePart},
		{3 * time.Millisecond, 100, 1. / throttlePart},
		{50 * time.Millisecond, 10, 1. / 3}, // no pause is longer than 100 ms
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			l := throttle{begun: begun}
			for range x.steps {
				time.Sleep(x.step)
				l.rest(t.Context())
			}
			if part := float64(x.step) * float64(x.steps) / float64(time.Since(begun)); part < 0.99*x.part ||
				part > 1.01*x.part {
				t.Errorf("steps of %v worked for %.3f of the time, and are to for %.3f", x.step, part, x.part)
			}
		})
	}
}

func TestThrottleEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l := throttle{begun: time.Now()}
		time.Sleep(time.Second)
		begun := time.Now()
		if l.rest(ctx); time.Since(begun) != 0 {
			t.Errorf("it rested for %v after its context had ended", time.Since(begun))
		}
	})
}

// TestStoreIsCountedLater: not in the first seconds of a server, and then throttled.
func TestStoreIsCountedLater(t *testing.T) {
	t.Parallel()
	dir, err := store.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := dir.NewWriter()
	for _, data := range []string{"one", "two"} {
		if _, _, err := w.Put(t.Context(), []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	defer w.Close()
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Store: dir, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.CountStore(ctx) }()
		for _, x := range []struct {
			after   time.Duration
			counted bool
		}{{firstSize - time.Second, false}, {2 * time.Second, true}} {
			time.Sleep(x.after)
			synctest.Wait()
			if l := s; l.counted != x.counted || l.counted && (l.count != 2 || l.bytes != 6) {
				t.Errorf("%d objects of %d bytes were counted: %v, want %v", l.count, l.bytes, l.counted, x.counted)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
