package alone

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// worker is a boot that works on one processor.
type worker struct {
	due  time.Duration // processor time that it should have had by now
	data [4096]byte
}

// think works for so long: by the processor time of its own thread, so that a boot whose processor is taken away
// has to wait for it. It is to be called on a goroutine with a thread of its own.
func (w *worker) think(ctx context.Context, d time.Duration) error {
	w.due += d
	for {
		had, err := threadTime()
		if err != nil || had >= w.due || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		sum := sha256.Sum256(w.data[:])
		copy(w.data[:], sum[:])
	}
}

// newWorker begins to count. Its thread is its caller's until release is called.
func newWorker() (w *worker, release func(), err error) {
	runtime.LockOSThread()
	had, err := threadTime()
	return &worker{due: had}, runtime.UnlockOSThread, err
}

// threadTime is the processor time of this thread.
func threadTime() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("processor time of a thread: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
