package control

import (
	"context"
	"sync"
	"time"

	"pando/internal/backoff"
	"pando/internal/trace"
)

// maxQueued bounds the queued events, so that a boot without a server does not fill the memory. Beyond it the oldest
// Info event is dropped first, then the oldest event.
const maxQueued = 500

// Reporter queues events and sends them to the server in order, as soon as the node can reach it.
type Reporter struct {
	// post sends all events or none. It fails while the server cannot be reached.
	post func(context.Context, []trace.Event) error

	mu    sync.Mutex
	queue []trace.Event
	kick  chan struct{}
	send  chan struct{} // holds an element while posting, so that Flush and Run do not send the same events
}

// NewReporter returns a reporter with an empty queue.
func NewReporter(post func(context.Context, []trace.Event) error) *Reporter {
	return &Reporter{post: post, kick: make(chan struct{}, 1), send: make(chan struct{}, 1)}
}

// Add queues events and returns at once.
func (r *Reporter) Add(events ...trace.Event) {
	r.mu.Lock()
	r.queue = append(r.queue, events...)
	for len(r.queue) > maxQueued {
		r.queue = dropOne(r.queue)
	}
	r.mu.Unlock()
	r.Wake()
}

func dropOne(q []trace.Event) []trace.Event {
	for i, e := range q {
		if e.Kind == trace.Info {
			return append(q[:i], q[i+1:]...)
		}
	}
	return q[1:]
}

// Wake makes Run try to send at once.
func (r *Reporter) Wake() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Take removes and returns the events that are not sent yet.
func (r *Reporter) Take() []trace.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queue
	r.queue = nil
	return q
}

// Flush sends the queued events, unless ctx ends first. If that fails, they stay in the queue.
func (r *Reporter) Flush(ctx context.Context) error {
	select {
	case r.send <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.send }()
	batch := r.Take()
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

// Idle waits until nothing is being sent, or until ctx ends. After it, Take misses no event.
func (r *Reporter) Idle(ctx context.Context) {
	select {
	case r.send <- struct{}{}:
		<-r.send
	case <-ctx.Done():
	}
}

// Run sends until ctx ends. Events that arrive within 50 ms are sent together.
func (r *Reporter) Run(ctx context.Context) {
	const together = 50 * time.Millisecond
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-r.kick:
		}
		if backoff.Sleep(ctx, together) != nil {
			return
		}
		if err := r.Flush(ctx); err == nil {
			failures = 0
			continue
		}
		failures++
		if backoff.Sleep(ctx, backoff.Delay(failures)) != nil {
			return
		}
		r.Wake()
	}
}
