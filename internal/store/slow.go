package store

import (
	"sync/atomic"
	"time"
)

// Slow is how long word may be on its way in this network, as far as somebody who knows has told. Time-outs that
// are made for usual links are never shorter than that: on a link that is full, a server that is silent for long is
// not gone. The zero value, and nil, is a network of usual links.
type Slow struct{ d atomic.Int64 }

// Tell takes the newest word.
func (s *Slow) Tell(d time.Duration) { s.d.Store(int64(max(d, 0))) }

// Least is a time-out of usual links, or what was told if that is more.
func (s *Slow) Least(usual time.Duration) time.Duration {
	if s == nil {
		return usual
	}
	return max(usual, time.Duration(s.d.Load()))
}
