package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// LockedError means that another process is writing to the store.
type LockedError struct{ Path, Holder string }

func (e *LockedError) Error() string {
	return fmt.Sprintf("store %s: locked by %s; wait until it is done", e.Path, e.Holder)
}

// TryLock takes the store's writer lock, or returns a *LockedError that names the holder. The kernel releases the
// lock when the process ends. purpose is shown to other processes that want the lock.
func (d *Dir) TryLock(purpose string) (unlock func(), err error) {
	name := filepath.Join(d.path, "lock")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock store: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock store %s: %w", d.path, err)
		}
		holder, _ := os.ReadFile(name)
		return nil, &LockedError{d.path, strings.TrimSpace(string(holder))}
	}
	_ = f.Truncate(0) // the text is only for people; the lock is held in any case
	_, _ = f.WriteAt(fmt.Appendf(nil, "process %d (%s)\n", os.Getpid(), purpose), 0)
	if err := d.clearIncoming(); err != nil {
		f.Close()
		return nil, err
	}
	if d.cache == nil {
		return func() { f.Close() }, nil
	}
	release, err := d.cache.lock(purpose)
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { release(); f.Close() }, nil
}

// Intervals at which Lock tries again. The kernel does not report that another process released a flock.
const (
	lockPoll   = 200 * time.Millisecond
	remotePoll = 3 * time.Second // each try sends the Remote at least two requests
)

// Lock is TryLock, but waits until the lock is free or ctx is done.
func (d *Dir) Lock(ctx context.Context, purpose string) (unlock func(), err error) {
	poll := lockPoll
	if d.cache != nil {
		poll = remotePoll
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		unlock, err := d.TryLock(purpose)
		var locked *LockedError
		if !errors.As(err, &locked) {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (%w)", locked, ctx.Err())
		case <-tick.C:
		}
	}
}

// clearIncoming removes what a killed writer left: objects without a final name, and temporary files of WriteFile
// beside the manifests. The lock must be held.
func (d *Dir) clearIncoming() error {
	left, err := filepath.Glob(filepath.Join(d.incoming(), "*"))
	if err != nil {
		return fmt.Errorf("lock store: %w", err)
	}
	hidden, err := filepath.Glob(filepath.Join(d.manifests(), ".*"))
	if err != nil {
		return fmt.Errorf("lock store: %w", err)
	}
	for _, name := range append(left, hidden...) {
		if err := os.RemoveAll(name); err != nil {
			return fmt.Errorf("lock store: remove left-over: %w", err)
		}
	}
	return nil
}
