package server

import (
	"context"
	"time"
)

// leisure has work that nobody waits for take no more than a part of a processor, and of the disk: machines that
// boot meanwhile come first.
type leisure struct {
	begun time.Time // when the work began, or the last rest ended
}

const (
	leisureWork = 2 * time.Millisecond // without a rest, at least
	leisurePart = 20
	// after a step that took long because others were waited for: a page of a bucket's list
	longestRest = 100 * time.Millisecond
)

// rest is to be called after each step, however small: it waits where that is due, and no longer than ctx.
func (l *leisure) rest(ctx context.Context) {
	worked := time.Since(l.begun)
	if worked < leisureWork {
		return
	}
	t := time.NewTimer(min((leisurePart-1)*worked, longestRest))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	l.begun = time.Now()
}
