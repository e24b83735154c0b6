package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"pando/internal/chunk"
)

// remoteCache is the part of a Dir that exists only if the Dir is the cache of a Remote.
type remoteCache struct {
	dir      *Dir
	remote   Remote
	lease    atomic.Pointer[heldLease] // set while this process writes
	bound    cacheBound
	sidecars sidecarCache

	mu       sync.Mutex
	fetching map[chunk.ID]*fetch
}

// fetch is the download of one object, for which several callers may wait.
type fetch struct {
	done chan struct{}
	err  error
}

func newRemoteCache(d *Dir, remote Remote, size int64) (*remoteCache, error) {
	f := &remoteCache{dir: d, remote: remote, fetching: map[chunk.ID]*fetch{}}
	f.sidecars = sidecarCache{cache: f, known: map[string]cachedSidecar{}}
	if err := os.RemoveAll(f.temporary()); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(f.temporary(), 0o755); err != nil {
		return nil, err
	}
	f.bound = cacheBound{dir: d, most: size}
	return f, f.bound.measure()
}

// temporary returns the directory for downloads. It is not the directory for new objects, which the next writer
// clears.
func (f *remoteCache) temporary() string { return filepath.Join(f.dir.path, "fetching") }

// fetch downloads an object into the directory, once for all callers that want it.
func (f *remoteCache) fetch(ctx context.Context, id chunk.ID) error {
	f.mu.Lock()
	c, there := f.fetching[id]
	if !there {
		if _, ok := f.dir.statFile(id); ok { // another caller may have downloaded it meanwhile
			f.mu.Unlock()
			return nil
		}
		c = &fetch{done: make(chan struct{})}
		f.fetching[id] = c
	}
	f.mu.Unlock()
	if !there {
		go func() { // the download continues even if the first caller stops waiting
			ctx, cancel := remoteContext()
			defer cancel()
			c.err = f.bring(ctx, id)
			f.mu.Lock()
			delete(f.fetching, id)
			f.mu.Unlock()
			close(c.done)
		}()
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Attempts at an object whose download broke off, and the pause between them. The Remote itself retries a request
// that got no answer.
const (
	bringTries = 4
	bringPause = 250 * time.Millisecond
)

func (f *remoteCache) bring(ctx context.Context, id chunk.ID) (err error) {
	for try := range bringTries {
		var n int64
		if n, err = f.bringOnce(ctx, id); err == nil {
			f.bound.added(n)
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
			break
		}
		select {
		case <-time.After(bringPause << try):
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("object %s from %s: %w", id, f.remote.Name(), err)
}

// bringOnce downloads an object to a temporary file and verifies it. It makes the file durable and renames it,
// because the file will be sent without being verified again.
func (f *remoteCache) bringOnce(ctx context.Context, id chunk.ID) (n int64, err error) {
	in, err := f.remote.Get(ctx, ObjectName(id))
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.CreateTemp(f.temporary(), "")
	if err != nil {
		return 0, explain(err, f.dir.path)
	}
	defer os.Remove(out.Name()) // after success the file has another name
	defer out.Close()
	sum := sha256.New()
	if n, err = io.Copy(io.MultiWriter(out, sum), in); err != nil {
		return n, explain(err, f.dir.path)
	}
	if got := (chunk.ID{Algorithm: chunk.SHA256, Sum: [32]byte(sum.Sum(nil))}); got != id {
		return n, &chunk.WrongBytesError{Want: id, Got: got, Size: int(n)}
	}
	if err = errors.Join(out.Chmod(0o644), out.Sync()); err == nil {
		err = f.dir.rename(out.Name(), f.dir.ObjectPath(id))
	}
	return n, explain(err, f.dir.path)
}

// read reads an object from the Remote, not from the cache, and verifies it.
func (f *remoteCache) read(ctx context.Context, id chunk.ID) ([]byte, error) {
	b, err := f.readName(ctx, ObjectName(id))
	if err != nil {
		return nil, fmt.Errorf("read object %s: %w", id, err)
	}
	return b, id.Verify(b)
}

func (f *remoteCache) readName(ctx context.Context, name string) ([]byte, error) {
	in, err := f.remote.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(in)
	return b.Bytes(), err
}

// open returns f, or downloads the object if err says that f does not exist.
func (f *remoteCache) open(id chunk.ID, file *os.File, err error) (*os.File, error) {
	if errors.Is(err, fs.ErrNotExist) {
		ctx, cancel := remoteContext()
		defer cancel()
		if err = f.fetch(ctx, id); err == nil {
			file, err = os.Open(f.dir.ObjectPath(id))
		}
	}
	if err != nil {
		return nil, err
	}
	f.used(file)
	return file, nil
}

// used records that an object is being read.
func (f *remoteCache) used(file *os.File) {
	if info, err := file.Stat(); err == nil {
		f.bound.touch(file, info)
	}
}

// get downloads an object that the directory does not have, or has with wrong bytes.
func (f *remoteCache) get(ctx context.Context, id chunk.ID) ([]byte, error) {
	f.forget(id)
	if err := f.fetch(ctx, id); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(f.dir.ObjectPath(id))
	if err != nil {
		return nil, fmt.Errorf("read object %s: %w", id, bare(err))
	}
	return b, id.Verify(b)
}

// stat returns the size of an object. For a writer only the Remote counts, for others also the cache.
func (f *remoteCache) stat(id chunk.ID) (int64, bool) {
	if f.lease.Load() == nil {
		if size, ok := f.dir.statFile(id); ok {
			return size, true
		}
	}
	ctx, cancel := remoteContext()
	defer cancel()
	o, ok, err := f.find(ctx, id)
	return o.size, ok && err == nil
}
