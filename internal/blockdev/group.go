package blockdev

import (
	"context"
	"sync"
)

// group makes each value once, however many want it at a time, and keeps the ones used last.
type group[K comparable, V any] struct {
	mu      sync.Mutex
	running map[K]*call[V]
	kept    lru[K, V]
}

// call is one value that is there or is being made.
type call[V any] struct {
	done  chan struct{}
	kept  bool // was there when it was asked for
	value V
	err   error
}

// join returns the call for k. When mine is true nobody makes it yet, and the caller must, with finish.
func (g *group[K, V]) join(k K) (c *call[V], mine bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v, ok := g.kept.get(k); ok {
		c := &call[V]{done: make(chan struct{}), kept: true, value: v}
		close(c.done)
		return c, false
	}
	if c, ok := g.running[k]; ok {
		return c, false
	}
	c = &call[V]{done: make(chan struct{})}
	if g.running == nil {
		g.running = map[K]*call[V]{}
	}
	g.running[k] = c
	return c, true
}

// peek returns the value of k if it is kept.
func (g *group[K, V]) peek(k K) (V, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.kept.get(k)
}

// forget lets go of the value of k.
func (g *group[K, V]) forget(k K) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kept.drop(k)
}

// busy is how many values are being made.
func (g *group[K, V]) busy() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.running)
}

// finish ends a call. A value is kept, an error is not: the next one that asks tries again.
func (g *group[K, V]) finish(k K, c *call[V], v V, cost int64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.value, c.err = v, err
	if err == nil {
		g.kept.put(k, v, cost)
	}
	delete(g.running, k)
	close(c.done)
}

// ended tells whether wait does not wait.
func (c *call[V]) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// wait returns the value, or gives up when ctx is done; the making goes on for others.
func (c *call[V]) wait(ctx context.Context) (V, error) {
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		var none V
		return none, context.Cause(ctx)
	}
}
