package sockopt

import (
	"context"
	"slices"
	"sync"
)

// Line is the uploads of a host, oldest first. They share its link. Five that are sent at the same time all come
// when the last of them would; one after the other they come after one, two, three, four and five times as long as
// one takes, and each can be passed on when it is there. One at a time would leave the link idle between two of
// them, and behind a slow peer. So all are sent at the same time, and the oldest passes the others: see
// docs/adr/0043-the-oldest-upload-first.md.
type Scheduler struct {
	mu      sync.Mutex
	uploads []*conn
	bulk    []*conn // answers that are long, and no pieces
}

// Enter adds the answer to a request, of size bytes, until leave is called. A small one does not stand in line: all
// that boots wait for its few frames, and Drain, which says when the next one's turn is, counts no fewer. It is for
// requests of a server with ConnContext; for others it does nothing.
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
	// what little of it is left keeps its priority: behind the next one it would wait as long as that takes
	return func() { l.leave(&l.uploads, c) }
}

// Beside adds the answer to a request that is longer than a piece by far: a kernel, an initramfs. Until leave is
// called, by when all of it is sent, it and the uploads share the link, and none passes another. Were it to pass
// uploads, they would stand still while one machine after the other loads; were it behind the oldest, no machine
// would load while there are any.
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

// order gives each its priority. What lies in a band that is behind stays there when its connection gets another,
// so no answer that goes on for minutes may have one before that of an upload.
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
