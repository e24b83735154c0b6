package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/chunk"
)

// heldLease is the lease of a writer with its knowledge of the Remote. That stays valid because nobody else writes.
type heldLease struct {
	Lease
	mu    sync.Mutex
	known map[byte]map[chunk.ID]remoteObject // objects, by the first byte of their digests
	count int
}

// remoteObject is an object in a Remote.
type remoteObject struct {
	size     int64
	modified time.Time
}

// knownMost bounds how many objects of a store a writer remembers. In a larger store it asks for each object.
const knownMost = 2 << 20

// lock takes the lease of the Remote in addition to the directory's lock.
func (f *remoteCache) lock(purpose string) (release func(), err error) {
	ctx, cancel := remoteContext()
	defer cancel()
	owner, err := f.owner()
	if err != nil {
		return nil, err
	}
	lease, err := f.remote.Lock(ctx, owner, purpose)
	if err != nil {
		return nil, err
	}
	f.lease.Store(&heldLease{Lease: lease, known: map[byte]map[chunk.ID]remoteObject{}})
	return func() {
		f.lease.Store(nil)
		lease.Release()
	}, nil
}

// owner returns an ID of this directory that no other directory in use has. A claim that a killed process left with
// this ID can be taken over, because the caller holds the lock of the directory.
func (f *remoteCache) owner() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("lock store: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Stat(f.dir.path, &st); err != nil {
		return "", fmt.Errorf("lock store: %w", err)
	}
	return chunk.Sum(fmt.Appendf(boot, "%d %d", st.Dev, st.Ino)).Name()[:16], nil
}

// held returns an error if this process may not write, or may not write any more.
func (f *remoteCache) held() error {
	l := f.lease.Load()
	if l == nil {
		return fmt.Errorf("write to %s: the lock is not held", f.remote.Name())
	}
	return l.Held()
}

// find looks for an object in the Remote, not in the cache. A writer asks for thousands of objects, so find lists the
// Remote in 256 parts, by the first byte of the digest.
func (f *remoteCache) find(ctx context.Context, id chunk.ID) (o remoteObject, ok bool, err error) {
	l := f.lease.Load()
	if l == nil {
		r, err := f.remote.Stat(ctx, ObjectName(id))
		return remoteObject{r.Size, r.Modified}, err == nil, ignoreMissing(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first := id.Sum[0]
	if l.known[first] == nil {
		if l.count > knownMost {
			clear(l.known)
			l.count = 0
		}
		found := map[chunk.ID]remoteObject{}
		err := f.remote.List(ctx, ObjectName(id)[:len(objectsPrefix)+3], func(r RemoteFile) error {
			if id, ok := objectOf(r.Name); ok {
				found[id] = remoteObject{r.Size, r.Modified}
			}
			return nil
		})
		if err != nil {
			return o, false, err
		}
		l.known[first] = found
		l.count += len(found)
	}
	o, ok = l.known[first][id]
	return o, ok, nil
}

// remoteFresh is the age up to which an object in a Remote is used again without renewing its time, which takes a
// request. It must be less than the age that garbage collection spares.
const remoteFresh = 6 * time.Hour

// uses reports whether the Remote has an object with this size, and renews its time.
func (f *remoteCache) uses(ctx context.Context, id chunk.ID, size int64) (bool, error) {
	o, ok, err := f.find(ctx, id)
	if err != nil || !ok || o.size != size {
		return false, err
	}
	if time.Since(o.modified) < remoteFresh {
		return true, nil
	}
	if err := f.held(); err != nil {
		return true, err
	}
	if err := f.remote.Touch(ctx, ObjectName(id)); err != nil {
		return true, fmt.Errorf("use object %s again: %w", id, err)
	}
	f.wrote(id, size)
	return true, nil
}

// put writes an object and replaces an existing one.
func (f *remoteCache) put(id chunk.ID, stored []byte) error {
	if err := f.held(); err != nil {
		return err
	}
	ctx, cancel := remoteContext()
	defer cancel()
	if err := f.remote.Put(ctx, ObjectName(id), stored); err != nil {
		return fmt.Errorf("write object %s to %s: %w", id, f.remote.Name(), err)
	}
	f.forget(id)
	f.wrote(id, int64(len(stored)))
	return nil
}

// wrote records an object's size in the Remote; a negative size means that it was removed.
func (f *remoteCache) wrote(id chunk.ID, size int64) {
	l := f.lease.Load()
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch found := l.known[id.Sum[0]]; {
	case found == nil:
	case size < 0:
		delete(found, id)
	default:
		found[id] = remoteObject{size, time.Now()}
	}
}

// uploads is how many objects are uploaded to a Remote at the same time.
const uploads = 16

// upload writes files into the Remote, each under the name of its object.
func (f *remoteCache) upload(ctx context.Context, paths map[chunk.ID]string) error {
	if err := f.held(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, uploads)
	var wg sync.WaitGroup
	for id, path := range paths {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := f.uploadOne(ctx, id, path); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (f *remoteCache) uploadOne(ctx context.Context, id chunk.ID, path string) error {
	data, err := os.ReadFile(path)
	if err == nil {
		err = id.Verify(data)
	}
	if err == nil {
		err = f.remote.Put(ctx, ObjectName(id), data)
	}
	if err != nil {
		return fmt.Errorf("write object %s to %s: %w", id, f.remote.Name(), err)
	}
	f.wrote(id, int64(len(data)))
	return nil
}

// removeTime bounds a change in the Remote. It is less than the time between the loss of a lease and the next lease.
const removeTime = 20 * time.Second

// remove removes objects, first from the Remote: an object only in the cache would count as stored.
func (f *remoteCache) remove(ctx context.Context, ids ...chunk.ID) error {
	if err := f.held(); err != nil {
		return err
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = ObjectName(id)
		f.wrote(id, -1)
	}
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	if err := f.remote.Remove(ctx, names...); err != nil {
		return errors.Join(fmt.Errorf("remove %d objects from %s", len(ids), f.remote.Name()), err)
	}
	for _, id := range ids {
		f.forget(id)
	}
	return nil
}
