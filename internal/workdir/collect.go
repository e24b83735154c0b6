package workdir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// LayerPrefix is the prefix of directories with layers of recipes, which the next build can use.
const LayerPrefix = "layer-"

// Unfinished is the work directory of an interrupted build, or a directory with layers of recipes.
type Unfinished struct {
	Name   string
	Bytes  int64     // on the disk
	Used   time.Time // last change
	Layers bool

	Changed bool // it has a change of `image shell` that could not be stored
	Busy    bool // a build uses it, or it is no work directory
}

// ChangedPart is the part with the changes of a copy of a version.
const ChangedPart = "upper"

// List lists the work directories below parent by name; none if parent does not exist.
func List(parent string) (out []Unfinished, err error) {
	dirs, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, d := range dirs {
		if !d.IsDir() {
			continue
		}
		u := Unfinished{Name: d.Name(), Layers: strings.HasPrefix(d.Name(), LayerPrefix)}
		if u.Bytes, u.Used, err = measureWork(filepath.Join(parent, d.Name())); err != nil {
			return out, fmt.Errorf("look at unfinished builds: %w", err)
		}
		_, err := os.Lstat(filepath.Join(parent, d.Name(), ChangedPart+".stamp"))
		u.Changed = err == nil
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b Unfinished) int { return cmp.Compare(a.Name, b.Name) })
	return out, err
}

// measureWork returns the bytes that a directory takes, and its last use. It ignores files that disappear meanwhile.
// The last use is the newest time of the directory and its direct entries, because a tree has the times of its
// packages.
func measureWork(dir string) (bytes int64, used time.Time, err error) {
	err = filepath.WalkDir(dir, func(path string, f fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = f.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			bytes += st.Blocks * 512
		} else {
			bytes += info.Size()
		}
		if path != dir && filepath.Dir(path) != dir {
			return nil
		}
		if t := info.ModTime(); t.After(used) {
			used = t
		}
		return nil
	})
	return bytes, used, err
}

// Collect removes the work directories below parent that no build uses: unfinished builds last used before idle, and
// changes and layers last used before kept. It returns what it removed, or would remove, and what stays.
func Collect(parent string, idle, kept time.Time, dryRun bool) (gone, stay []Unfinished, err error) {
	all, err := List(parent)
	if err != nil {
		return nil, nil, err
	}
	for _, u := range all {
		before := idle
		if u.Layers || u.Changed {
			before = kept
		}
		if !u.Used.Before(before) {
			stay = append(stay, u)
			continue
		}
		w, ok := OpenIdle(filepath.Join(parent, u.Name))
		if !ok {
			u.Busy = true
			stay = append(stay, u)
			continue
		}
		if !dryRun {
			err = errors.Join(err, w.Remove())
		}
		w.Close()
		gone = append(gone, u)
	}
	return gone, stay, err
}

// OpenIdle locks a work directory. It returns false if it is no work directory, or if a build has the lock.
func OpenIdle(path string) (*Dir, bool) {
	w := &Dir{Path: path}
	f, err := os.OpenFile(w.File("lock"), os.O_RDWR, 0)
	if err != nil {
		return nil, false
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !sameFile(f, w.File("lock")) {
		f.Close()
		return nil, false
	}
	w.lock = f
	return w, true
}
