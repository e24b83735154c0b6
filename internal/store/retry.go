package store

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"pando/internal/chunk"
)

// Retry asks a source without end: a read of the root must not fail while a source may still come back. It waits
// longer after each failure, with jitter so that the nodes of a site do not retry in step. When a request succeeds,
// all waiting ones try at once.
type Retry struct {
	from chunk.Source
	log  *slog.Logger

	mu   sync.Mutex
	wake chan struct{} // closed and replaced when a request succeeds after failures
}

// NewRetry returns a Retry over from.
func NewRetry(from chunk.Source, log *slog.Logger) *Retry {
	return &Retry{from: from, log: log, wake: make(chan struct{})}
}

// The pause before the second attempt, and the longest pause, which bounds how much an outage is prolonged.
const (
	pauseFirst = 100 * time.Millisecond
	pauseMost  = 2 * time.Second
)

// pause returns the time before an attempt (1 is the first repetition): between half of its nominal value and all of
// it. random returns a number in [0,n).
func pause(attempt int, random func(n int64) int64) time.Duration {
	p := pauseFirst
	for ; attempt > 1 && p < pauseMost; attempt-- {
		p *= 2
	}
	p = min(p, pauseMost)
	return p/2 + time.Duration(random(int64(p/2)+1))
}

// Get retries until it has the object or ctx is done. If the request is Optional, it also returns if no source has
// the object, or if all sources that have it send wrong bytes.
func (r *Retry) Get(ctx context.Context, req chunk.Request) (chunk.Verified, error) {
	req.Attempt = 0
	for {
		wake := r.waker()
		v, err := r.from.Get(ctx, req)
		if err == nil {
			if req.Attempt > 0 {
				r.wakeAll()
			}
			return v, nil
		}
		if ctx.Err() != nil {
			return chunk.Verified{}, context.Cause(ctx)
		}
		if req.Optional && final(err) {
			return chunk.Verified{}, err
		}
		req.Attempt++
		// Log the first failure and then about one each minute, so that an outage does not fill the kernel's log.
		if req.Attempt == 1 || req.Attempt%32 == 0 {
			r.log.Warn("waiting for an object", "object", req.ID.Name(), "attempt", req.Attempt, "err", err)
		}
		select {
		case <-time.After(pause(req.Attempt, rand.Int64N)):
		case <-wake:
		case <-ctx.Done():
			return chunk.Verified{}, context.Cause(ctx)
		}
	}
}

// final reports whether another attempt cannot succeed.
func final(err error) bool {
	var wrong *chunk.WrongBytesError
	return errors.Is(err, ErrMissing) || errors.As(err, &wrong)
}

func (r *Retry) waker() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wake
}

func (r *Retry) wakeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.wake)
	r.wake = make(chan struct{})
}
