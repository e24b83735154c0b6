package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lockFile is held by the server that has the data directory.
const lockFile = "lock"

// InUseError means that another server has the data directory.
type InUseError struct{ Dir, Holder string }

func (e *InUseError) Error() string {
	return fmt.Sprintf("data directory %s is in use by another pando server%s", e.Dir, e.Holder)
}

// Hint reports what can be done about it.
func (e *InUseError) Hint() string {
	return "stop the other one, or use another directory with --data"
}

// CheckFree returns an *InUseError while a server has the data directory. New asks again, and takes it.
func CheckFree(dir string) error {
	f, err := takeLock(dir, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no server was ever here
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// lockDir takes the data directory for this process. The kernel frees the lock when the process ends.
func lockDir(dir string) (*os.File, error) {
	f, err := takeLock(dir, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err = f.Truncate(0); err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock data directory: %w", err), f.Close())
	}
	return f, nil
}

func takeLock(dir string, flags int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		pid, _ := io.ReadAll(io.LimitReader(f, 20)) // only for the message
		e := &InUseError{Dir: dir}
		if p := strings.TrimSpace(string(pid)); p != "" {
			e.Holder = ", process " + p
		}
		return nil, errors.Join(e, f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock data directory: %w", err), f.Close())
	}
	return f, nil
}
