package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"pando/internal/chunk"
)

// Backend is where a ReadThrough keeps objects: a Disk or a Memory.
type Backend interface {
	Get(id chunk.ID, size int64) (chunk.Verified, bool)
	Has(id chunk.ID) bool
	Wants(id chunk.ID) bool
	Put(v chunk.Verified) error
	Sync() error
}

// Bounds of what a boot pays for its cache.
const (
	patience   = time.Second // for the backend; a disk that wakes up takes several, the network does not
	mostLate   = 4           // answers that may be late before the backend is not asked any more, until they come
	mostQueued = 16 << 20    // bytes that wait to be written; most are kept by the boot pack as well
	mostAwait  = 8 << 20     // and bytes that wait for a backend that is not there yet
	writeQuiet = time.Second // without anything to write, until what was written is made durable
)

// ReadThrough answers from a Backend, fetches what that lacks, and writes it to the Backend in the background. One
// ReadThrough may serve several sources.
type ReadThrough struct {
	Backend Backend
	Hit     func(bytes int) // told of each object that the backend had; nil: nobody is
	Begin   func()          // called by the goroutine that writes, before it does; nil: nothing
	// called once, when the backend does not answer and is not used any more; may be nil
	Hangs func()

	late atomic.Int32 // answers of the backend that nobody waits for any more
	told sync.Once    // that it hangs

	mu      sync.Mutex
	queue   []chunk.Verified
	queued  int64
	dropped int64
	awaits  bool                          // the backend
	more    func() (chunk.Verified, bool) // of Fill
	wake    chan struct{}                 // nil: nothing was ever queued
	ended   chan struct{}                 // closed when the writing goroutine has ended
	closed  bool
}

// AwaitBackend makes requests for objects that the backend should have wait until BackendReady. Call it before the
// first request.
func (t *ReadThrough) AwaitBackend() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.awaits = true
}

// BackendReady ends AwaitBackend. there: the backend is there; it never will be otherwise.
func (t *ReadThrough) BackendReady(there bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.awaits = false
	switch {
	case !there: // under the same lock: what was offered a moment ago must not be written to it
		t.end()
		t.queue, t.queued, t.more = nil, 0, nil
	case len(t.queue) > 0:
		t.wakeWriter()
	}
}

// Fill writes earlier objects to the backend while nothing else waits: next returns one after the other, and false at
// the end. It is called by the goroutine that writes.
func (t *ReadThrough) Fill(next func() (chunk.Verified, bool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.more = next; !t.awaits {
		t.wakeWriter()
	}
}

// Before returns a source that asks the backend before next, and keeps what next returns.
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

// Lookup asks the backend, and gives up when that takes long: a disk that is broken or asleep shall not be slower than
// none.
func (t *ReadThrough) Lookup(ctx context.Context, r chunk.Request) (chunk.Verified, bool) {
	if t.late.Load() >= mostLate {
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
			t.late.Add(-1)
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
		t.offer(a.v) // it may be so old that it is to be written again
		return a.v, true
	case <-enough.C:
	case <-ctx.Done():
	}
	if t.late.Add(1) == mostLate {
		// Not at once: readers that left did not wait for it.
		time.AfterFunc(patience, t.tell)
	}
	close(gone)
	return chunk.Verified{}, false
}

// tell says that the backend hangs, if it still does.
func (t *ReadThrough) tell() {
	if t.Hangs != nil && t.late.Load() >= mostLate {
		t.told.Do(t.Hangs)
	}
}

// offer queues an object for writing, if the backend wants it, or is still to come, and there is room.
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

// wakeWriter has the goroutine that writes look what there is. Callers hold mu.
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

// write writes what is queued, one object at a time, until Close or until the backend takes nothing more.
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
				_ = t.Backend.Sync() // the backend told whoever wants to know
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

// take returns what is queued, and else what came before.
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

// Close stops taking objects, and returns when those that are queued are durable, or ctx is done.
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

// end has nothing taken any more. Callers hold mu.
func (t *ReadThrough) end() {
	if !t.closed {
		t.closed = true
		if t.wake != nil {
			close(t.wake)
		}
	}
}

// giveUp ends writing to a backend that takes nothing more, which it told whoever wants to know.
func (t *ReadThrough) giveUp() {
	t.stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue, t.queued, t.more = nil, 0, nil
}

// Dropped is how many objects were not written because too many were waiting.
func (t *ReadThrough) Dropped() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}
