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

// worker simulates the work of a boot on one processor.
type worker struct {
	due  time.Duration // processor time that it should have used by now
	data [4096]byte
}

// think works for the time d, measured by the processor time of its thread, so that it takes longer if other programs
// have the processor. It must be called on a goroutine that is locked to its thread.
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

// newWorker locks the calling goroutine to its thread until release is called.
func newWorker() (w *worker, release func(), err error) {
	runtime.LockOSThread()
	had, err := threadTime()
	return &worker{due: had}, runtime.UnlockOSThread, err
}

// threadTime returns the processor time of this thread.
func threadTime() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("processor time of a thread: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
