package server

import (
	"sync"
	"time"
)

// bucket lets burst things through at once and then rate of them each second.
type bucket struct {
	burst, rate float64

	mu   sync.Mutex
	full float64
	at   time.Time
}

func newBucket(burst, rate float64) *bucket { return &bucket{burst: burst, rate: rate, full: burst} }

// take reports whether one more may pass now.
func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.at.IsZero() && now.After(b.at) {
		b.full = min(b.burst, b.full+b.rate*now.Sub(b.at).Seconds())
	}
	b.at = now
	if b.full < 1 {
		return false
	}
	b.full--
	return true
}

// left is how long it takes until one more may pass, 0 when it may now.
func (b *bucket) left(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	missing := 1 - b.full - b.rate*max(now.Sub(b.at), 0).Seconds()
	return time.Duration(max(missing, 0) / b.rate * float64(time.Second))
}

// rested reports whether as many may pass as if none ever had.
func (b *bucket) rested(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.full+b.rate*max(now.Sub(b.at), 0).Seconds() >= b.burst
}
