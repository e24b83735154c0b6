package ratelimit

import (
	"sync"
	"time"
)

// Bucket is a token bucket: it lets burst things through at once, and then rate of them each second.
type Bucket struct {
	burst, rate float64

	mu   sync.Mutex
	full float64
	at   time.Time
}

// New returns a full bucket.
func New(burst, rate float64) *Bucket { return &Bucket{burst: burst, rate: rate, full: burst} }

// Take reports whether one more may pass now.
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

// Wait returns how long it takes until one more may pass, 0 when it may now.
func (b *Bucket) Wait(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	missing := 1 - b.full - b.rate*max(now.Sub(b.at), 0).Seconds()
	return time.Duration(max(missing, 0) / b.rate * float64(time.Second))
}

// Idle reports whether the bucket is full again, as if nothing had ever passed.
func (b *Bucket) Idle(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.full+b.rate*max(now.Sub(b.at), 0).Seconds() >= b.burst
}
