package blockd

import (
	"context"
	"errors"
	"sync"
	"time"

	"pando/internal/blockdev"
)

// reader is the device behind the kernel's reads.
type reader interface {
	Size() int64
	ReadAt(ctx context.Context, p []byte, off int64) error
	ReadNow(p []byte, off int64) bool
}

// meteredDevice counts the kernel's reads and measures how long they wait.
type meteredDevice struct {
	reader
	ledger ledger
	stall  *stall
	reads  *readRecorder
	broken func(error)
}

// ReadAt serves a read of the kernel.
func (d *meteredDevice) ReadAt(ctx context.Context, p []byte, off int64) error {
	d.reads.note(off, len(p))
	done := d.stall.begin()
	err := d.reader.ReadAt(ctx, p, off)
	done()
	switch {
	case err == nil:
		d.ledger.add(countReads, 1)
		d.ledger.add(countReadBytes, int64(len(p)))
	case ctx.Err() == nil:
		d.ledger.add(countErrors, 1)
		if errors.Is(err, blockdev.ErrBroken) {
			d.broken(err)
		}
	}
	return err
}

// ReadNow serves a read of the kernel if its bytes are in memory.
func (d *meteredDevice) ReadNow(p []byte, off int64) bool {
	if !d.reader.ReadNow(p, off) {
		return false
	}
	d.reads.note(off, len(p))
	d.ledger.add(countReads, 1)
	d.ledger.add(countReadBytes, int64(len(p)))
	return true
}

// stallAfter is the waiting time after which a read counts as stalled. A boot's reads usually take milliseconds.
const stallAfter = time.Second

// stall measures the time in which at least one read waited longer than stallAfter. Reads that wait at the same time
// count once.
type stall struct {
	ledger ledger
	now    func() time.Time

	mu      sync.Mutex
	next    int
	waiting map[int]time.Time // start of each running read
	counted time.Time         // stalled time up to this moment is in the ledger
}

func newStall(l ledger) *stall {
	return &stall{ledger: l, now: time.Now, waiting: map[int]time.Time{}}
}

// begin registers a read. The returned function ends it.
func (s *stall) begin() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	n := s.next
	s.waiting[n] = s.now()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.count(s.waiting[n])
		delete(s.waiting, n)
	}
}

// count adds the time from start to now that is not in the ledger yet. The caller holds mu.
func (s *stall) count(start time.Time) {
	now := s.now()
	if now.Sub(start) < stallAfter {
		return
	}
	if start.Before(s.counted) {
		start = s.counted
	}
	s.ledger.add(countStalled, int64(now.Sub(start)))
	s.counted = now
}

// flush adds the stalled time of reads that still wait, and returns how many reads run.
func (s *stall) flush() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := s.now()
	for _, t := range s.waiting {
		if t.Before(oldest) {
			oldest = t
		}
	}
	s.count(oldest)
	return len(s.waiting)
}

// pendingDevice is a device whose index is still being fetched. The kernel sends reads to a daemon that takes over
// before it has the index; they wait for it.
type pendingDevice struct {
	size  int64
	there chan struct{} // closed when dev is set
	dev   *blockdev.Device
}

// Size returns the size in the manifest. An index with another size is refused.
func (d *pendingDevice) Size() int64 { return d.size }

// ReadAt waits for the device and reads.
func (d *pendingDevice) ReadAt(ctx context.Context, p []byte, off int64) error {
	select {
	case <-d.there:
		return d.dev.ReadAt(ctx, p, off)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ReadNow reads what is in memory, once the device is there.
func (d *pendingDevice) ReadNow(p []byte, off int64) bool {
	select {
	case <-d.there:
		return d.dev.ReadNow(p, off)
	default:
		return false
	}
}

func (d *pendingDevice) arrive(dev *blockdev.Device) {
	d.dev = dev
	close(d.there)
}

func (d *pendingDevice) close() {
	select {
	case <-d.there:
		d.dev.Close()
	default:
	}
}
