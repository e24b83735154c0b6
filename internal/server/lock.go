package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lockFile is held by the server that has the data directory.
const lockFile = "lock"

// InUseError says that another server has the data directory.
type InUseError struct{ Dir, Holder string }

func (e *InUseError) Error() string {
	return fmt.Sprintf("data directory %s is in use by another pando server%s", e.Dir, e.Holder)
}

// Hint says what can be done about it.
func (e *InUseError) Hint() string {
	return "stop the other one, or use another directory with --data"
}

// lockDir takes the data directory for this process. The kernel frees the lock when the process ends.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
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
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock data directory: %w", err), f.Close())
	}
	return f, nil
}
