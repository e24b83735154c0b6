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

// lockFile is the file that a running server holds locked in its data directory.
const lockFile = "lock"

// InUseError means that another server uses the data directory. Holder is "" or names its process.
type InUseError struct{ Dir, Holder string }

func (e *InUseError) Error() string {
	return fmt.Sprintf("data directory %s is in use by another pando server%s", e.Dir, e.Holder)
}

// Hint says what can be done about the error.
func (e *InUseError) Hint() string {
	return "stop the other one, or use another directory with --data"
}

// CheckFree returns an *InUseError if a server uses the data directory. It does not keep the lock; New takes it later.
func CheckFree(dir string) error {
	f, err := takeLock(dir, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no server has used this directory
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// lockDir locks the data directory for this process. The kernel frees the lock when the process ends.
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
