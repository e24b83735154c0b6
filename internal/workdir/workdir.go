package workdir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/image"
	"pando/internal/steps"
	"pando/internal/store"
)

// Dir is the directory of an unfinished build. It has the tree, the raw image, and for each finished part a stamp
// that says what the part was made from. The stamp is written last.
type Dir struct {
	Path     string
	revision int // of the build package
	lock     *os.File
}

// Open opens or makes a work directory and waits until no other build uses it. Parts by another revision of the build
// package are not used again.
func Open(
	ctx context.Context,
	parent, name string,
	revision int,
	report func(steps.Progress),
) (*Dir, error) {
	w := &Dir{Path: filepath.Join(parent, name), revision: revision}
	for told := false; ; told = true {
		if err := os.MkdirAll(w.Path, 0o700); err != nil { // a tree has private files and set-uid programs
			return nil, fmt.Errorf("work directory: %w", err)
		}
		f, err := os.OpenFile(w.File("lock"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("work directory: %w", err)
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && sameFile(f, w.File("lock")) {
			w.lock = f
			return w, nil
		}
		f.Close()
		if !told {
			report(steps.Progress{Note: "waiting for another build of the same"})
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another build of the same: %w", ctx.Err())
		case <-time.After(200 * time.Millisecond): // the kernel does not report that a flock ends
		}
	}
}

// sameFile reports whether name still is the file f. The build that had the lock may have removed the directory.
func sameFile(f *os.File, name string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(name)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// File returns the path of a part.
func (w *Dir) File(name string) string { return filepath.Join(w.Path, name) }

// Close releases the lock.
func (w *Dir) Close() { w.lock.Close() }

// Note writes the last error into the work directory, for people who look into it.
func (w *Dir) Note(step string, err error) {
	_ = os.WriteFile(w.File("error"), fmt.Appendf(nil, "%s: %v\n", step, err), 0o600)
}

// Remove removes the directory and its content, the lock last.
func (w *Dir) Remove() error {
	left, err := os.ReadDir(w.Path)
	if err != nil {
		return fmt.Errorf("remove work directory: %w", err)
	}
	for _, f := range left {
		if f.Name() == "lock" {
			continue
		}
		if err := RemoveTree(w.File(f.Name())); err != nil {
			return fmt.Errorf("remove work directory: %w", err)
		}
	}
	if err := os.RemoveAll(w.Path); err != nil {
		return fmt.Errorf("remove work directory: %w", err)
	}
	return nil
}

// Stamp says that a part is complete, and what it was made from.
type Stamp struct {
	Of       string    `json:"of"`       // what the part was made from
	Revision int       `json:"revision"` // of the build package that made it; PutStamp sets it
	Made     time.Time `json:"made"`
	Size     int64     `json:"size,omitempty"` // bytes, if the part is a file

	Origin *image.Origin `json:"origin,omitempty"` // of a tree that a source filled
	Kernel string        `json:"kernel,omitempty"` // release of the kernel that was put into the tree
}

// Stamped reads the stamp of a part. It returns false if the part is missing, or was made from something else or by
// another revision.
func (w *Dir) Stamped(part, of string) (Stamp, bool) {
	var s Stamp
	data, err := os.ReadFile(w.File(part + ".stamp"))
	if err != nil || json.Unmarshal(data, &s) != nil || s.Of != of || s.Revision != w.revision {
		return s, false
	}
	_, err = os.Lstat(w.File(part))
	return s, err == nil
}

// PutStamp writes the stamp of a part. The part must already be durable.
func (w *Dir) PutStamp(part string, s Stamp) error {
	s.Revision = w.revision
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return store.WriteFile(w.File(part+".stamp"), data, 0o600)
}

// Drop removes a part, its stamp first.
func (w *Dir) Drop(part string) error {
	if err := os.Remove(w.File(part + ".stamp")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return RemoveTree(w.File(part))
}

// RemoveTree removes a directory unless a file system is mounted below it: the files below a mount point that a
// killed installer left may be the machine's own.
func RemoveTree(path string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	for _, line := range strings.Split(string(mounts), "\n") {
		fields := strings.Fields(line)
		if len(fields) > 4 && (fields[4] == path || strings.HasPrefix(fields[4], path+"/")) {
			return fmt.Errorf("remove %s: %s is mounted; unmount it first", path, fields[4])
		}
	}
	return os.RemoveAll(path)
}
