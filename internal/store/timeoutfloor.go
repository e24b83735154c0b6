package store

import (
	"sync/atomic"
	"time"
)

// TimeoutFloor is the shortest useful time-out in this network at the moment. On a saturated link a working server
// may be silent for seconds, so no request gives up earlier. The zero value and nil have no floor.
type TimeoutFloor struct{ d atomic.Int64 }

// Set replaces the floor; a negative value counts as 0.
func (s *TimeoutFloor) Set(d time.Duration) { s.d.Store(int64(max(d, 0))) }

// AtLeast returns the usual time-out, or the floor if that is longer.
func (s *TimeoutFloor) AtLeast(usual time.Duration) time.Duration {
	if s == nil {
		return usual
	}
	return max(usual, time.Duration(s.d.Load()))
}
