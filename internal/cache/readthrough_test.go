package cache

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/chunk"
)

// origin has the objects 0 to 999.
type origin struct {
	mu    sync.Mutex
	asked int
}

func (o *origin) Get(_ context.Context, r chunk.Request) (chunk.Verified, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	for n := range 1000 {
		if v := object(n); v.ID() == r.ID {
			return v, nil
		}
	}
	return chunk.Verified{}, errors.New("no such object")
}

func TestThroughADisk(t *testing.T) {
	m := formatted(t, testSize)
	from, bytes := &origin{}, 0
	for boot := range 2 {
		begun := 0
		th := &ReadThrough{
			Backend: openMemory(t, m, Options{}),
			Hit:     func(n int) { bytes += n },
			Begin:   func() { begun++ },
		}
		s := th.Before(from)
		for n := range 40 {
			if v, err := s.Get(t.Context(), chunk.Request{ID: object(n).ID()}); err != nil || v.ID() != object(n).ID() {
				t.Fatalf("object %d: %v", n, err)
			}
		}
		if _, err := s.Get(t.Context(), chunk.Request{ID: chunk.Sum([]byte("no"))}); err == nil {
			t.Error("an object that nobody has is got")
		}
		th.Close(t.Context())
		if boot == 0 && (begun != 1 || bytes != 0) {
			t.Errorf("first boot: the writer began %d times, %d bytes were hit", begun, bytes)
		}
	}
	if from.asked != 42 || bytes == 0 {
		t.Errorf(
			"the origin was asked %d times for 40 objects and one that nobody has, twice; %d bytes were hit",
			from.asked,
			bytes,
		)
	}
}

// gate is a backend whose answers wait, like those of a disk that hangs.
type gate struct {
	Memory
	open chan struct{}
	fail error
	puts int
}

func (g *gate) Get(id chunk.ID, size int64) (chunk.Verified, bool) {
	<-g.open
	return g.Memory.Get(id, size)
}

func (g *gate) Put(v chunk.Verified) error {
	<-g.open
	g.puts++
	return errors.Join(g.fail, g.Memory.Put(v))
}

func newGate() *gate {
	return &gate{Memory: Memory{limit: 1 << 30, items: NewMemory(0).items}, open: make(chan struct{})}
}

// A backend that does not answer delays each of the first reads, and no later one. Hangs is called once.
func TestBackendThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, from := newGate(), &origin{}
		var told atomic.Int32
		th := &ReadThrough{Backend: g, Hangs: func() { told.Add(1) }}
		s := th.Before(from)
		begun := time.Now()
		for n := range 20 {
			if _, err := s.Get(t.Context(), chunk.Request{ID: object(n).ID()}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took != maxPendingAnswers*patience {
			t.Errorf("twenty reads took %s", took)
		}
		time.Sleep(patience)
		synctest.Wait()
		if n := told.Load(); n != 1 {
			t.Errorf("that it hangs is told %d times", n)
		}
		close(g.open)
		th.Close(t.Context())
		synctest.Wait()
		if g.puts != 20 || th.abandoned.Load() != 0 {
			t.Errorf("the keeper came back: %d objects were written, %d answers are late", g.puts, th.abandoned.Load())
		}
		if _, err := s.Get(t.Context(), chunk.Request{ID: object(3).ID()}); err != nil || from.asked != 20 {
			t.Errorf("the keeper is not asked any more: %v", err)
		}
		if n := told.Load(); n != 1 {
			t.Errorf("the keeper came back: that it hangs is told %d times", n)
		}
	})
}

// Readers that give up early do not make a backend count as hanging.
func TestReadersThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		th := &ReadThrough{Backend: g, Hangs: func() { t.Error("a keeper that answers in time is told of") }}
		ctx, cancel := context.WithCancel(t.Context())
		for n := range 2 * maxPendingAnswers {
			go th.Lookup(ctx, chunk.Request{ID: object(n).ID()})
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if n := th.abandoned.Load(); n != 2*maxPendingAnswers {
			t.Errorf("%d answers are late", n)
		}
		time.Sleep(patience / 2)
		close(g.open)
		time.Sleep(patience)
		if n := th.abandoned.Load(); n != 0 {
			t.Errorf("the keeper came back: %d answers are late", n)
		}
	})
}

// The queue of objects is bounded, and is dropped when the backend fails.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		th := &ReadThrough{Backend: g}
		large := make([]byte, 1<<20)
		for n := range 30 {
			large[0] = byte(n)
			b := append([]byte(nil), large...)
			v, err := chunk.Check(chunk.Sum(b), b)
			if err != nil {
				t.Fatal(err)
			}
			th.offer(v)
		}
		synctest.Wait()
		// One more than the bound: it is being written.
		if d := th.Dropped(); d < 30-17 || d > 30-16 || th.queued > mostQueued {
			t.Errorf("%d of 30 were dropped, %d bytes are queued", d, th.queued)
		}
		g.fail = errors.New("the disk is gone")
		close(g.open)
		th.Close(t.Context())
		if g.puts != 1 || th.queued != 0 {
			t.Errorf("a keeper that failed was written %d times, %d bytes are queued", g.puts, th.queued)
		}
		th.offer(object(1))
		if th.queued != 0 {
			t.Error("a keeper that failed is written again")
		}
	})
}

func TestMemory(t *testing.T) {
	m := NewMemory(100)
	put := func(b ...byte) chunk.ID {
		t.Helper()
		b = append(b, make([]byte, 39)...)
		v, err := chunk.Check(chunk.Sum(b), b)
		if err == nil {
			err = m.Put(v)
		}
		if err != nil {
			t.Fatal(err)
		}
		return v.ID()
	}
	a, b := put(1), put(2)
	if _, ok := m.Get(a, 0); !ok || m.Wants(a) || !m.Wants(chunk.Sum(nil)) {
		t.Error("an object that was put is not there")
	}
	put(1)
	c := put(3)
	if _, ok := m.Get(b, 0); ok || m.bytes != 80 {
		t.Errorf("the one not used for longest is still there, %d bytes", m.bytes)
	}
	if _, ok := m.Get(c, 0); !ok || !m.Wants(put(make([]byte, 80)...)) || m.Sync() != nil {
		t.Error("the newest is gone, or a large one is kept")
	}
}

// Objects that are fetched before the backend is there wait for it, within bounds, as do objects of Fill. If the
// backend never comes, nothing waits any more.
func TestBackendThatComesLate(t *testing.T) {
	for _, there := range []bool{true, false} {
		k, from := NewMemory(1<<30), &origin{}
		th := &ReadThrough{Backend: k}
		th.AwaitBackend()
		s := th.Before(from)
		for n := range 20 {
			if _, err := s.Get(t.Context(), chunk.Request{ID: object(n).ID()}); err != nil {
				t.Fatal(err)
			}
		}
		large, err := chunk.Check(chunk.Sum(make([]byte, mostAwait)), make([]byte, mostAwait))
		if err != nil {
			t.Fatal(err)
		}
		th.offer(large)
		if th.wake != nil || len(th.queue) != 20 || th.Dropped() != 1 {
			t.Errorf("before it is there: %d objects wait, %d were dropped", len(th.queue), th.Dropped())
		}
		more := 20
		th.Fill(func() (chunk.Verified, bool) {
			more++
			return object(more - 1), more <= 30
		})
		th.BackendReady(there)
		if _, err := s.Get(t.Context(), chunk.Request{ID: object(40).ID()}); err != nil {
			t.Fatal(err)
		}
		th.Close(t.Context())
		for n := range 30 {
			if k.Has(object(n).ID()) != there {
				t.Errorf("there %v: has object %d: %v", there, n, !there)
			}
		}
		if k.Has(object(40).ID()) != there || len(th.queue) > 0 || th.more != nil && !there {
			t.Errorf("there %v: it has what came later: %v; %d objects wait", there, !there, len(th.queue))
		}
	}
}

// absent is a backend that never comes. It fails the test when it is used.
type absent struct{ t *testing.T }

func (absent) Get(chunk.ID, int64) (chunk.Verified, bool) { return chunk.Verified{}, false }
func (absent) Has(chunk.ID) bool                          { return false }
func (absent) Wants(chunk.ID) bool                        { return false }
func (absent) Sync() error                                { return nil }

func (k absent) Put(chunk.Verified) error {
	k.t.Error("something is written to what is not there")
	return nil
}

// An object fetched at the moment when the backend turns out to be absent is not written.
func TestBackendThatNeverComes(t *testing.T) {
	for range 200 {
		th := &ReadThrough{Backend: absent{t}}
		th.AwaitBackend()
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() { th.offer(object(n)) })
		}
		th.BackendReady(false)
		all.Wait()
		th.offer(object(9))
		th.Close(t.Context())
	}
}
