// Package ratelimit is a token bucket whose clock is an argument.
//
// It owns nothing. Rooms of the server bound with it what others can make them do: logins, requests, records of unknown
// machines. It must never wait: it answers whether something may pass now.
package ratelimit

import (
	"sync"
	"time"
)

// Bucket is a token bucket. It is safe for concurrent use.
type Bucket struct {
	burst, rate float64

	mu   sync.Mutex
	full float64
	at   time.Time
}

// New returns a full bucket that lets burst events pass at once, and then rate events a second.
func New(burst, rate float64) *Bucket { return &Bucket{burst: burst, rate: rate, full: burst} }

// Take reports whether one more event may pass now, and counts it if so.
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

// Left returns how long it takes until one more event may pass, 0 if it may pass now.
func (b *Bucket) Left(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	missing := 1 - b.full - b.rate*max(now.Sub(b.at), 0).Seconds()
	return time.Duration(max(missing, 0) / b.rate * float64(time.Second))
}

// Rested reports whether the bucket is full again, as if nothing had ever passed.
func (b *Bucket) Rested(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.full+b.rate*max(now.Sub(b.at), 0).Seconds() >= b.burst
}
