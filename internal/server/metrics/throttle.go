package metrics

import (
	"context"
	"time"
)

// throttle limits background work to 1/throttlePart of the time, so that booting machines come first.
type throttle struct {
	begun time.Time // when the work began or the last pause ended
}

const (
	throttleWork = 2 * time.Millisecond // least time of work between two pauses
	throttlePart = 20
	// limits the pause after a step that took long only because it waited, such as for a page of a bucket's list
	longestRest = 100 * time.Millisecond
)

// rest must be called after each small step. It waits if a pause is due, but not longer than ctx.
func (t *throttle) rest(ctx context.Context) {
	worked := time.Since(t.begun)
	if worked < throttleWork {
		return
	}
	timer := time.NewTimer(min((throttlePart-1)*worked, longestRest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	t.begun = time.Now()
}
