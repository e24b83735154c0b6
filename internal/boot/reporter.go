package boot

import (
	"context"
	"sync"
	"time"

	"pando/internal/trace"
)

// maxQueued bounds the events that wait for a channel; beyond it the oldest facts (Info) go first, then the
// oldest of all. A boot that cannot reach its server for an hour must not eat the machine's memory.
const maxQueued = 500

// reporter sends events to the server in order, as soon as there is a way to it.
type reporter struct {
	// post sends events, all or none. It fails while there is no channel.
	post func(context.Context, []trace.Event) error

	mu    sync.Mutex
	queue []trace.Event
	kick  chan struct{}
	send  chan struct{} // holds one while posting, so that flush and run do not send twice
}

func newReporter(post func(context.Context, []trace.Event) error) *reporter {
	return &reporter{post: post, kick: make(chan struct{}, 1), send: make(chan struct{}, 1)}
}

// add queues events and returns at once.
func (r *reporter) add(events ...trace.Event) {
	r.mu.Lock()
	r.queue = append(r.queue, events...)
	for len(r.queue) > maxQueued {
		r.queue = dropOne(r.queue)
	}
	r.mu.Unlock()
	r.wake()
}

func dropOne(q []trace.Event) []trace.Event {
	for i, e := range q {
		if e.Kind == trace.Info {
			return append(q[:i], q[i+1:]...)
		}
	}
	return q[1:]
}

// wake makes run try at once, after a channel appeared.
func (r *reporter) wake() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// take returns and forgets what was not sent.
func (r *reporter) take() []trace.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queue
	r.queue = nil
	return q
}

// flush sends what is queued, unless ctx ends first.
func (r *reporter) flush(ctx context.Context) error {
	select {
	case r.send <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.send }()
	batch := r.take()
	if len(batch) == 0 {
		return nil
	}
	err := r.post(ctx, batch)
	if err != nil {
		r.mu.Lock()
		r.queue = append(batch, r.queue...)
		r.mu.Unlock()
	}
	return err
}

// idle waits until nothing is being sent, so that take misses nothing, or until ctx ends.
func (r *reporter) idle(ctx context.Context) {
	select {
	case r.send <- struct{}{}:
		<-r.send
	case <-ctx.Done():
	}
}

// run sends until ctx ends. Events that come together go together.
func (r *reporter) run(ctx context.Context) {
	const together = 50 * time.Millisecond
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-r.kick:
		}
		if sleep(ctx, together) != nil {
			return
		}
		if err := r.flush(ctx); err == nil {
			failures = 0
			continue
		}
		failures++
		if sleep(ctx, backoff(failures)) != nil {
			return
		}
		r.wake()
	}
}
