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
