package metrics

import (
	"context"
	"time"
)

// throttle limits background work to a part of one processor, and of the disk, so that booting machines come first.
type throttle struct {
	begun time.Time // when the work began or the last rest ended
}

const (
	throttleWork = 2 * time.Millisecond // least time of work between two rests
	throttlePart = 20
	// also after a step that took long because it waited, such as for a page of a bucket's list
	longestRest = 100 * time.Millisecond
)

// rest is called after each small step. It waits if a rest is due, until ctx ends at most.
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
