package control

import (
	"context"
	"sync"
	"time"

	"pando/internal/backoff"
	"pando/internal/trace"
)

// maxQueued bounds the events that wait for a channel; beyond it the oldest facts (Info) go first, then the
// oldest of all. A boot that cannot reach its server for an hour must not eat the machine's memory.
const maxQueued = 500

// Reporter sends events to the server in order, as soon as there is a way to it.
type Reporter struct {
	// post sends events, all or none. It fails while there is no channel.
	post func(context.Context, []trace.Event) error

	mu    sync.Mutex
	queue []trace.Event
	kick  chan struct{}
	send  chan struct{} // holds one while posting, so that flush and run do not send twice
}

// NewReporter has nothing to send yet.
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

// Wake makes run try at once, after a channel appeared.
func (r *Reporter) Wake() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Take returns and forgets what was not sent.
func (r *Reporter) Take() []trace.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queue
	r.queue = nil
	return q
}

// Flush sends what is queued, unless ctx ends first.
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

// Idle waits until nothing is being sent, so that take misses nothing, or until ctx ends.
func (r *Reporter) Idle(ctx context.Context) {
	select {
	case r.send <- struct{}{}:
		<-r.send
	case <-ctx.Done():
	}
}

// Run sends until ctx ends. Events that come together go together.
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
