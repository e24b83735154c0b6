package nbd

import (
	"context"
	"sync"
)

// budget bounds how many reads run at a time and the bytes of their answers. Reads are admitted in order of arrival, by
// the one goroutine that reads the connection.
type budget struct {
	mu       sync.Mutex
	requests int
	bytes    int64
	all      int64
	freed    chan struct{} // capacity 1: a read was returned
}

func newBudget(requests int, bytes int64) *budget {
	return &budget{requests: requests, bytes: bytes, all: bytes, freed: make(chan struct{}, 1)}
}

// take waits until one more read of n bytes may run. A read larger than the whole budget waits until it is alone.
func (b *budget) take(ctx context.Context, n int64) error {
	for !b.try(n) {
		select {
		case <-b.freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (b *budget) try(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.requests < 1 || b.bytes < min(n, b.all) {
		return false
	}
	b.requests--
	b.bytes -= min(n, b.all)
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	b.requests++
	b.bytes += min(n, b.all)
	b.mu.Unlock()
	select {
	case b.freed <- struct{}{}:
	default:
	}
}
