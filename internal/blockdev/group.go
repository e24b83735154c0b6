package blockdev

import (
	"context"
	"sync"
)

// group makes each value once, however many callers want it at a time, and keeps the values used last.
type group[K comparable, V any] struct {
	mu      sync.Mutex
	running map[K]*call[V]
	kept    lru[K, *call[V]]

	// freed, if set, is called with a value that is no longer kept and that no caller of join or peek uses any more
	// (they call leave). It is called with mu held. A caller that never leaves only keeps the value from being freed.
	freed func(V)
}

// call is a value that is made or being made.
type call[V any] struct {
	done  chan struct{}
	value V
	err   error

	// Guarded by the group's mu.
	users int
	kept  bool
}

// found is the result of join.
type found int

const (
	nothing found = iota // the value is not being made: the caller must make it and call finish
	coming               // another caller is making the value
	there
)

// join returns the call for k. The caller uses the value until it calls leave.
func (g *group[K, V]) join(k K) (*call[V], found) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c, ok := g.kept.get(k); ok {
		c.users++
		return c, there
	}
	if c, ok := g.running[k]; ok {
		c.users++
		return c, coming
	}
	c := &call[V]{done: make(chan struct{}), users: 1}
	if g.running == nil {
		g.running = map[K]*call[V]{}
	}
	g.running[k] = c
	return c, nothing
}

// peek returns the call of k if its value is kept, as join does.
func (g *group[K, V]) peek(k K) (c *call[V], ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c, ok = g.kept.get(k); ok {
		c.users++
	}
	return c, ok
}

// leave ends the use of a call.
func (g *group[K, V]) leave(c *call[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.users--
	g.free(c)
}

// free passes a value that has no user and is not kept to freed. The caller holds mu.
func (g *group[K, V]) free(c *call[V]) {
	if g.freed != nil && c.users == 0 && !c.kept && c.ended() && c.err == nil {
		g.freed(c.value)
	}
}

// forget drops the value of k.
func (g *group[K, V]) forget(k K) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(g.kept.drop(k))
}

// trim lets part drop a part of the value of k, if the value is kept and has no user. part returns the cost of the
// rest.
func (g *group[K, V]) trim(k K, part func(V) (cost int64)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c, ok := g.kept.peek(k); ok && c.users == 0 {
		g.kept.recost(k, part(c.value))
	}
}

// makeRoom drops the values unused for longest, until a value of that cost fits.
func (g *group[K, V]) makeRoom(cost int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(g.kept.shrink(g.kept.limit - cost))
}

// drop notes that calls are no longer kept. The caller holds mu.
func (g *group[K, V]) drop(gone []*call[V]) {
	for _, c := range gone {
		c.kept = false
		g.free(c)
	}
}

// busy returns how many values are being made.
func (g *group[K, V]) busy() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.running)
}

// finish ends a call. A value is kept. An error is not kept, so the next caller tries again.
func (g *group[K, V]) finish(k K, c *call[V], v V, cost int64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.value, c.err = v, err
	delete(g.running, k)
	close(c.done)
	if err == nil {
		c.kept = true
		g.drop(g.kept.put(k, c, cost))
	}
}

// ended reports whether the value or an error is there.
func (c *call[V]) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// wait returns the value, or gives up when ctx is done. The value is still made for other callers.
func (c *call[V]) wait(ctx context.Context) (V, error) {
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		var none V
		return none, context.Cause(ctx)
	}
}
