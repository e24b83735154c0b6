package backoff

import (
	"context"
	"time"
)

// The delay doubles from the first to the longest.
const (
	First   = 500 * time.Millisecond
	Longest = 30 * time.Second
)

// Delay doubles from half a second to half a minute.
func Delay(attempt int) time.Duration {
	d := First
	for range attempt - 1 {
		if d *= 2; d >= Longest {
			return Longest
		}
	}
	return d
}

// Sleep waits for d or for the end of ctx, whose error it returns.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
