package sockopt

import (
	"context"
	"slices"
	"sync"
)

// Scheduler orders the uploads of a host. Five uploads that share a link all end late. One after the other, each could
// be passed on as soon as it is complete, but the link would be idle in between. So all run at once and the oldest has
// priority: see docs/adr/0053-rules-of-the-swarm.md.
type Scheduler struct {
	mu      sync.Mutex
	uploads []*conn
	bulk    []*conn // long responses other than pieces
	ahead   []*conn // long responses that go before all uploads
}

// Upload adds a response of size bytes to the schedule, until leave is called. A small response is sent at once.
// Without ConnContext it does nothing.
func (l *Scheduler) Upload(ctx context.Context, size int64) (leave func()) {
	if size <= drainedBytes {
		return l.UploadSmall(ctx)
	}
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uploads = append(l.uploads, c)
	l.order()
	// Its queued bytes keep their priority: otherwise they would wait behind the next upload.
	return func() { l.leave(&l.uploads, c) }
}

// UploadSmall gives the priority to a small response that a boot waits for. It passes the responses of UploadAhead.
func (l *Scheduler) UploadSmall(ctx context.Context) (leave func()) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.ahead) == 0 {
			c.prioritize(First)
		} else {
			c.prioritize(Message)
		}
	}
	return func() {}
}

// UploadBulk adds a response much longer than a piece, such as a kernel, until leave is called. It shares the link
// equally with all uploads: with priority it would stop them for minutes, and behind them no machine could load.
func (l *Scheduler) UploadBulk(ctx context.Context) (leave func()) {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bulk = append(l.bulk, c)
	l.order()
	return func() { l.leave(&l.bulk, c) }
}

// UploadAhead adds a long response that goes before all uploads, until leave is called.
func (l *Scheduler) UploadAhead(ctx context.Context) (leave func()) {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead = append(l.ahead, c)
	l.order()
	return func() { l.leave(&l.ahead, c) }
}

// Ahead reports whether there are responses of UploadAhead.
func (l *Scheduler) Ahead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ahead) > 0
}

func (l *Scheduler) leave(of *[]*conn, c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(*of, c); i >= 0 {
		*of = slices.Delete(*of, i, i+1)
	}
	l.order()
}

// order sets the priorities. Queued bytes keep theirs, so a response that takes minutes never gets more than an upload.
func (l *Scheduler) order() {
	for _, c := range l.ahead {
		c.prioritize(First)
	}
	for _, c := range l.bulk {
		c.prioritize(Bulk)
	}
	for i, c := range l.uploads {
		if i == 0 && len(l.bulk)+len(l.ahead) == 0 {
			c.prioritize(First)
		} else {
			c.prioritize(Bulk)
		}
	}
}
