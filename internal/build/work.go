package build

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
	"pando/internal/store"
)

// workDir holds what a build has not finished: the tree, the raw image, and a stamp for each that says it
// is whole and of what it was made. A stamp is written after what it vouches for.
type workDir struct {
	path     string
	revision int // of the build that uses it
	lock     *os.File
}

// openWork opens or makes a work directory and waits until no other build uses it. What was made by another revision
// of the build is not used again.
func openWork(
	ctx context.Context,
	parent, name string,
	revision int,
	report func(Progress),
) (*workDir, error) {
	w := &workDir{path: filepath.Join(parent, name), revision: revision}
	for told := false; ; told = true {
		if err := os.MkdirAll(w.path, 0o700); err != nil { // a tree has private files and set-uid programs
			return nil, fmt.Errorf("work directory: %w", err)
		}
		f, err := os.OpenFile(w.file("lock"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("work directory: %w", err)
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && sameFile(f, w.file("lock")) {
			w.lock = f
			return w, nil
		}
		f.Close()
		if !told {
			report(Progress{Note: "waiting for another build of the same"})
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another build of the same: %w", ctx.Err())
		case <-time.After(200 * time.Millisecond): // nobody tells when a flock ends
		}
	}
}

// sameFile tells whether name still is f: the build that had the lock removes the directory.
func sameFile(f *os.File, name string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(name)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

func (w *workDir) file(name string) string { return filepath.Join(w.path, name) }

func (w *workDir) close() { w.lock.Close() }

// note keeps the last error for the person who looks into a work directory that was left.
func (w *workDir) note(step string, err error) {
	_ = os.WriteFile(w.file("error"), fmt.Appendf(nil, "%s: %v\n", step, err), 0o600)
}

// remove removes the directory and all in it, the lock last.
func (w *workDir) remove() error {
	left, err := os.ReadDir(w.path)
	if err != nil {
		return fmt.Errorf("remove work directory: %w", err)
	}
	for _, f := range left {
		if f.Name() == "lock" {
			continue
		}
		if err := removeTree(w.file(f.Name())); err != nil {
			return fmt.Errorf("remove work directory: %w", err)
		}
	}
	if err := os.RemoveAll(w.path); err != nil {
		return fmt.Errorf("remove work directory: %w", err)
	}
	return nil
}

// stamp vouches for a part of the work.
type stamp struct {
	Of       string    `json:"of"`       // of what it was made
	Revision int       `json:"revision"` // how; putStamp sets it
	Made     time.Time `json:"made"`
	Size     int64     `json:"size,omitempty"` // bytes, of a file

	Origin *image.Origin `json:"origin,omitempty"` // of a tree that a source made
	Kernel string        `json:"kernel,omitempty"` // release of the kernel that a tree was given
}

// stamped reads the stamp of a part, if the part is there and was made of the same in the same way.
func (w *workDir) stamped(part, of string) (stamp, bool) {
	var s stamp
	data, err := os.ReadFile(w.file(part + ".stamp"))
	if err != nil || json.Unmarshal(data, &s) != nil || s.Of != of || s.Revision != w.revision {
		return s, false
	}
	_, err = os.Lstat(w.file(part))
	return s, err == nil
}

// putStamp vouches for a part whose bytes are on the disk.
func (w *workDir) putStamp(part string, s stamp) error {
	s.Revision = w.revision
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return store.WriteFile(w.file(part+".stamp"), data, 0o600)
}

// drop removes a part, its stamp first.
func (w *workDir) drop(part string) error {
	if err := os.Remove(w.file(part + ".stamp")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return removeTree(w.file(part))
}

// removeTree removes a directory, but nothing on which another file system is mounted: what is below a
// mount point left by a killed installer may be the machine's own.
func removeTree(path string) error {
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
