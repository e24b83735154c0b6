package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"pando/internal/chunk"
)

// Backend is the store of a ReadThrough: a Disk or a Memory.
type Backend interface {
	Get(id chunk.ID, size int64) (chunk.Verified, bool)
	Has(id chunk.ID) bool
	Wants(id chunk.ID) bool
	Put(v chunk.Verified) error
	Sync() error
}

// Bounds of what the cache may cost a boot.
const (
	patience          = time.Second // longest wait for the backend; the network is faster
	maxPendingAnswers = 4           // with so many answers outstanding, the backend is skipped until they arrive
	mostQueued        = 16 << 20    // bytes that wait to be written; the boot pack keeps most of them as well
	mostAwait         = 8 << 20     // bytes that wait for a backend that is not there yet
	writeQuiet        = time.Second // time without writes after which the backend is synced
)

// ReadThrough answers from a Backend, fetches missing objects from the next source, and writes them to the Backend in
// the background. One ReadThrough may serve several sources.
type ReadThrough struct {
	Backend Backend
	Hit     func(bytes int) // called for each object that the backend had; may be nil
	Begin   func()          // called by the writing goroutine before its first write; may be nil
	// Hangs is called once, when the backend does not answer and is skipped; may be nil.
	Hangs func()

	abandoned atomic.Int32 // requests to the backend whose reader gave up
	told      sync.Once    // calls Hangs

	mu      sync.Mutex
	queue   []chunk.Verified
	queued  int64
	dropped int64
	awaits  bool                          // the backend may still come
	more    func() (chunk.Verified, bool) // argument of Fill
	wake    chan struct{}                 // nil: nothing was queued yet
	ended   chan struct{}                 // closed when the writing goroutine has ended
	closed  bool
}

// AwaitBackend makes objects for the backend wait until BackendReady. Call it before the first request.
func (t *ReadThrough) AwaitBackend() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.awaits = true
}

// BackendReady ends AwaitBackend. there: the backend exists; otherwise it never will.
func (t *ReadThrough) BackendReady(there bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.awaits = false
	switch {
	case !there: // under the same lock, so that nothing offered meanwhile is written
		t.end()
		t.queue, t.queued, t.more = nil, 0, nil
	case len(t.queue) > 0:
		t.wakeWriter()
	}
}

// Fill writes earlier objects to the backend while the queue is empty. next returns one after the other, and false at
// the end. The writing goroutine calls it.
func (t *ReadThrough) Fill(next func() (chunk.Verified, bool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.more = next; !t.awaits {
		t.wakeWriter()
	}
}

// Before returns a source that asks the backend before next, and offers what next returns to the backend.
func (t *ReadThrough) Before(next chunk.Source) chunk.Source {
	return chunk.SourceFunc(func(ctx context.Context, r chunk.Request) (chunk.Verified, error) {
		if v, ok := t.Lookup(ctx, r); ok {
			return v, nil
		}
		v, err := next.Get(ctx, r)
		if err == nil {
			t.offer(v)
		}
		return v, err
	})
}

// Lookup asks the backend, and gives up after a second: a disk that is broken or asleep must not be slower than none.
func (t *ReadThrough) Lookup(ctx context.Context, r chunk.Request) (chunk.Verified, bool) {
	if t.abandoned.Load() >= maxPendingAnswers {
		return chunk.Verified{}, false
	}
	type answer struct {
		v  chunk.Verified
		ok bool
	}
	there := make(chan answer)
	gone := make(chan struct{})
	go func() {
		v, ok := t.Backend.Get(r.ID, r.Size)
		select {
		case there <- answer{v, ok}:
		case <-gone:
			t.abandoned.Add(-1)
		}
	}()
	enough := time.NewTimer(patience)
	defer enough.Stop()
	select {
	case a := <-there:
		if !a.ok {
			return a.v, false
		}
		if t.Hit != nil {
			t.Hit(len(a.v.Stored()))
		}
		t.offer(a.v) // it may be so old that it must be written again
		return a.v, true
	case <-enough.C:
	case <-ctx.Done():
	}
	if t.abandoned.Add(1) == maxPendingAnswers {
		// Not at once: the readers may have given up early.
		time.AfterFunc(patience, t.tell)
	}
	close(gone)
	return chunk.Verified{}, false
}

// tell calls Hangs if the backend still does not answer.
func (t *ReadThrough) tell() {
	if t.Hangs != nil && t.abandoned.Load() >= maxPendingAnswers {
		t.told.Do(t.Hangs)
	}
}

// offer queues an object for writing, if there is room and the backend wants it or is not there yet.
func (t *ReadThrough) offer(v chunk.Verified) {
	if !t.waiting() && !t.Backend.Wants(v.ID()) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	size, most := int64(len(v.Stored())), int64(mostQueued)
	if t.awaits {
		most = mostAwait
	}
	if t.closed || t.queued+size > most {
		t.dropped++ // the next boot fetches it again, and has less to write
		return
	}
	t.queue = append(t.queue, v)
	t.queued += size
	if !t.awaits {
		t.wakeWriter()
	}
}

func (t *ReadThrough) waiting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.awaits
}

// wakeWriter starts or wakes the writing goroutine. The caller holds mu.
func (t *ReadThrough) wakeWriter() {
	if t.closed {
		return
	}
	if t.wake == nil {
		t.wake, t.ended = make(chan struct{}, 1), make(chan struct{})
		go t.write(t.wake)
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// write writes the queued objects, one at a time, until Close or until the backend fails.
func (t *ReadThrough) write(wake <-chan struct{}) {
	defer close(t.ended)
	if t.Begin != nil {
		t.Begin()
	}
	quiet := time.NewTimer(writeQuiet)
	defer quiet.Stop()
	for {
		v, ok := t.take()
		if ok {
			if t.Backend.Put(v) != nil {
				t.giveUp()
				return
			}
			quiet.Reset(writeQuiet)
			continue
		}
		select {
		case _, open := <-wake:
			if !open {
				_ = t.Backend.Sync() // the backend has reported the error
				return
			}
		case <-quiet.C:
			if t.Backend.Sync() != nil {
				t.giveUp()
				return
			}
		}
	}
}

// take returns the next queued object, or else the next one of Fill.
func (t *ReadThrough) take() (chunk.Verified, bool) {
	t.mu.Lock()
	if more := t.more; len(t.queue) == 0 && more != nil {
		t.mu.Unlock()
		return more()
	}
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.queue = nil
		return chunk.Verified{}, false
	}
	v := t.queue[0]
	t.queue[0] = chunk.Verified{}
	t.queue = t.queue[1:]
	t.queued -= int64(len(v.Stored()))
	return v, true
}

// Close stops taking objects, and returns when the queued ones are durable, or ctx is done.
func (t *ReadThrough) Close(ctx context.Context) {
	t.stop()
	t.mu.Lock()
	ended := t.ended
	t.mu.Unlock()
	if ended == nil {
		return
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

func (t *ReadThrough) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end()
}

// end stops taking objects. The caller holds mu.
func (t *ReadThrough) end() {
	if !t.closed {
		t.closed = true
		if t.wake != nil {
			close(t.wake)
		}
	}
}

// giveUp ends writing to a backend that failed. The backend has reported the error.
func (t *ReadThrough) giveUp() {
	t.stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue, t.queued, t.more = nil, 0, nil
}

// Dropped returns how many objects were not written because too many were queued.
func (t *ReadThrough) Dropped() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}
