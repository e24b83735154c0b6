package ratelimit

import (
	"sync"
	"time"
)

// Bucket is a token bucket: it allows burst events at once, and then rate events per second.
type Bucket struct {
	burst, rate float64

	mu   sync.Mutex
	full float64
	at   time.Time
}

// New returns a full bucket.
func New(burst, rate float64) *Bucket { return &Bucket{burst: burst, rate: rate, full: burst} }

// Take reports whether one more event is allowed now, and counts it.
func (b *Bucket) Take(now time.Time) bool {
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

// Wait returns the time until one more event is allowed; 0: now.
func (b *Bucket) Wait(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	missing := 1 - b.full - b.rate*max(now.Sub(b.at), 0).Seconds()
	return time.Duration(max(missing, 0) / b.rate * float64(time.Second))
}

// Idle reports whether the bucket is full again, as if it were new.
func (b *Bucket) Idle(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.full+b.rate*max(now.Sub(b.at), 0).Seconds() >= b.burst
}
