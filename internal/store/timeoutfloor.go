package store

import (
	"sync/atomic"
	"time"
)

// TimeoutFloor is the shortest time-out that makes sense in this network at the moment. On a saturated link a server
// may be silent for seconds and still be alive, so no request gives up earlier than this. The zero value, and nil,
// have no floor.
type TimeoutFloor struct{ d atomic.Int64 }

// Set replaces the floor; a negative one is 0.
func (s *TimeoutFloor) Set(d time.Duration) { s.d.Store(int64(max(d, 0))) }

// AtLeast returns the usual time-out, or the floor if that is longer.
func (s *TimeoutFloor) AtLeast(usual time.Duration) time.Duration {
	if s == nil {
		return usual
	}
	return max(usual, time.Duration(s.d.Load()))
}
