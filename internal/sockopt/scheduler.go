package sockopt

import (
	"context"
	"slices"
	"sync"
)

// Scheduler sends the uploads of a host in their order. Five uploads that share a link all end late; one after the
// other each can be passed on as soon as it is complete. One at a time would leave the link idle in between, so all
// run at once and the oldest has priority: see docs/adr/0053-rules-of-the-swarm.md.
type Scheduler struct {
	mu      sync.Mutex
	uploads []*conn
	bulk    []*conn // long responses that are no pieces
}

// Upload adds a response of size bytes to the schedule, until leave is called. A small one is sent at once. It needs
// ConnContext; otherwise it does nothing.
func (l *Scheduler) Upload(ctx context.Context, size int64) (leave func()) {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok {
		return func() {}
	}
	if size <= drainedBytes {
		c.prioritize(First)
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uploads = append(l.uploads, c)
	l.order()
	// The rest of it keeps its priority: behind the next upload it would wait as long as that takes.
	return func() { l.leave(&l.uploads, c) }
}

// UploadBulk adds a response that is much longer than a piece, such as a kernel, until leave is called. It shares the
// link with all uploads in equal parts: with priority it would stop them for minutes, without it no machine could load
// while there are uploads.
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

func (l *Scheduler) leave(of *[]*conn, c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(*of, c); i >= 0 {
		*of = slices.Delete(*of, i, i+1)
	}
	l.order()
}

// order sets the priorities. Bytes that are queued keep theirs, so a response that takes minutes never gets more than
// an upload.
func (l *Scheduler) order() {
	for _, c := range l.bulk {
		c.prioritize(Bulk)
	}
	for i, c := range l.uploads {
		if i == 0 && len(l.bulk) == 0 {
			c.prioritize(First)
		} else {
			c.prioritize(Bulk)
		}
	}
}
