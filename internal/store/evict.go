package store

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"pando/internal/chunk"
)

// cacheBound keeps the objects in a cache directory below a number of bytes: it removes those that were not read for
// the longest time. The modification time of a file is the time of its last read.
type cacheBound struct {
	dir  *Dir
	most int64

	mu   sync.Mutex
	have int64 // bytes of objects, approximately; the next sweep corrects what concurrent processes did
}

// touchAfter is how old the time of a file must be before a reader renews it, so that a boot storm does not write the
// same inode again and again.
const touchAfter = 5 * time.Minute

func (b *cacheBound) touch(f *os.File, info fs.FileInfo) {
	now := time.Now()
	if now.Sub(info.ModTime()) > touchAfter {
		_ = os.Chtimes(f.Name(), now, now) // if it fails, the object is removed a little early
	}
}

func (b *cacheBound) measure() error {
	files, err := b.files()
	for _, f := range files {
		b.have += f.size
	}
	return err
}

// added counts n new bytes and removes old objects if there are too many.
func (b *cacheBound) added(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.have += n; b.have <= b.most {
		return
	}
	files, err := b.files()
	if err != nil {
		return // the next call tries again
	}
	b.have = 0
	for _, f := range files {
		b.have += f.size
	}
	slices.SortFunc(files, func(x, y cachedFile) int { return cmp.Compare(x.used, y.used) })
	for _, f := range files {
		if b.have <= b.most-b.most/8 {
			return
		}
		if err := os.Remove(f.path); err == nil || errors.Is(err, fs.ErrNotExist) {
			b.have -= f.size
		}
	}
}

type cachedFile struct {
	path string
	size int64
	used int64 // Unix nanoseconds
}

func (b *cacheBound) files() (out []cachedFile, err error) {
	err = filepath.WalkDir(b.dir.objects(), func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return ignoreMissing(err)
		}
		info, err := f.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		out = append(out, cachedFile{path, info.Size(), info.ModTime().UnixNano()})
		return nil
	})
	return out, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// forget removes an object from the cache.
func (f *remoteCache) forget(id chunk.ID) { _ = os.Remove(f.dir.ObjectPath(id)) }
