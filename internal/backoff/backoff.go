package backoff

import (
	"context"
	"time"
)

// First is the delay after the first failed attempt. Longest bounds the delay.
const (
	First   = 500 * time.Millisecond
	Longest = 30 * time.Second
)

// Delay returns the time to wait after failed attempt number attempt (1, 2, ...). It doubles from First to Longest.
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
