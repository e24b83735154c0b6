package control

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/trace"
)

func TestReporterKeepsOrderThroughOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		var got []string
		r := NewReporter(func(_ context.Context, events []trace.Event) error {
			if !up.Load() {
				return errors.New("no way to the server yet")
			}
			for _, e := range events {
				got = append(got, e.Message)
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.Run(ctx)
		r.Add(trace.Event{Message: "1"})
		time.Sleep(time.Minute) // on a fake clock
		r.Add(trace.Event{Message: "2"}, trace.Event{Message: "3"})
		synctest.Wait()
		up.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(got) != 3 || got[0] != "1" || got[1] != "2" || got[2] != "3" {
			t.Errorf("got %v, want 1 2 3", got)
		}
		if left := r.Take(); len(left) != 0 {
			t.Errorf("%d events left in the queue", len(left))
		}
	})
}

func TestReporterIsBounded(t *testing.T) {
	r := NewReporter(func(context.Context, []trace.Event) error { return errors.New("down") })
	r.Add(trace.Event{Kind: trace.Fail, Message: "first"})
	for range 2 * maxQueued {
		r.Add(trace.Event{Kind: trace.Info})
	}
	q := r.Take()
	if len(q) != maxQueued || q[0].Message != "first" {
		t.Errorf("%d events queued, the first is %q; want %d, and the failure kept", len(q), q[0].Message, maxQueued)
	}
}

func TestFlushKeepsWhatWasNotSent(t *testing.T) {
	fail := true
	r := NewReporter(func(context.Context, []trace.Event) error {
		if fail {
			return errors.New("down")
		}
		return nil
	})
	r.Add(trace.Event{Message: "x"})
	if err := r.Flush(t.Context()); err == nil {
		t.Error("flush without a server gave no error")
	}
	fail = false
	if err := r.Flush(t.Context()); err != nil || len(r.Take()) != 0 {
		t.Errorf("second flush: %v", err)
	}
}

// A hanging post does not block Flush longer than its context, and the events that it was sending are not lost.
func TestFlushHonoursItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewReporter(func(ctx context.Context, _ []trace.Event) error {
			<-ctx.Done()
			return ctx.Err()
		})
		running, stop := context.WithCancel(t.Context())
		defer stop()
		go r.Run(running)
		r.Add(trace.Event{Message: "x"})
		time.Sleep(time.Second)
		const most = 500 * time.Millisecond
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), most)
		defer cancel()
		time.AfterFunc(time.Minute, stop) // otherwise a Flush that waits for the post would wait for ever
		if err := r.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != most {
			t.Errorf(
				"flush ended after %v with %v, want %v and the context's error",
				time.Since(begun),
				err,
				most,
			)
		}
		stop()
		r.Idle(t.Context())
		if q := r.Take(); len(q) != 1 {
			t.Errorf("%d events left for the agent, want the one that was being sent", len(q))
		}
	})
}
