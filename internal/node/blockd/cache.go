package blockd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/cache"
	"pando/internal/chunk"
)

// cacheHeap is the memory that a cache on a disk takes at most: its directory, and half of what waits to be
// written; the rest of that is kept as pieces of the boot pack anyway.
const cacheHeap = 16 << 20

// cacheHeapOf is the garbage collector's aim for what this daemon keeps beside the usual.
func cacheHeapOf(c blockapi.Config) int64 {
	if c.Disk != nil || c.Pending != nil {
		return c.RAM + cacheHeap
	}
	return c.RAM
}

// cacheOpens is how long a boot waits for the tables of its cache, some megabytes. After that it begins without, and
// asks the cache when it is there.
const cacheOpens = 2 * time.Second

var errCacheHangs = errors.New("it answers too late, and is not asked any more until its answers come")

// openCache begins to use the cache that the configuration names.
func (d *blockDaemon) openCache(ctx context.Context) {
	switch {
	case d.cfg.Disk != nil || d.cfg.Pending != nil:
		d.pending = &pendingCache{}
		d.through = &cache.ReadThrough{
			Backend: d.pending,
			Begin:   lowPriority,
			Hit:     func(n int) { d.ledger.add(bytesDisk, int64(n)) },
			Hangs:   func() { d.cacheFailed(errCacheHangs) },
		}
		d.through.AwaitBackend()
		came, opened := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(opened)
			d.useDisk(came)
		}()
		d.awaitCache(ctx, came, opened)
	case d.cfg.RAM > 0:
		d.through = &cache.ReadThrough{
			Backend: cache.NewMemory(d.cfg.RAM),
			Hit:     func(n int) { d.ledger.add(bytesRAM, int64(n)) },
		}
	}
}

// awaitCache returns when the tables of the cache are there, or have had their time. Of a node that is not known to
// have a cache the disk is not waited for.
func (d *blockDaemon) awaitCache(ctx context.Context, came, opened <-chan struct{}) {
	if pending := d.cfg.Pending; pending != nil && !pending.Came() {
		select {
		case <-came:
		case <-time.After(pending.Wait):
			d.log.Info("the cache's disk is still to come; the boot begins without", "waited", pending.Wait)
			return
		case <-ctx.Done():
			return
		}
	}
	select {
	case <-opened:
	case <-time.After(cacheOpens):
		d.cacheFailed(fmt.Errorf("its tables are not read after %s; the boot begins without", cacheOpens))
	case <-ctx.Done():
	}
}

// useDisk gets the disk, closes came, and begins to use it.
func (d *blockDaemon) useDisk(came chan<- struct{}) {
	c, err := d.cfg.Disk, error(nil)
	if c == nil {
		c, err = d.cfg.Pending.Receive()
	}
	d.disk.Store(c)
	close(came)
	var disk *cache.Disk
	if c != nil {
		disk, err = d.openDisk(c)
	}
	if err != nil {
		d.cacheFailed(err)
	}
	if disk == nil {
		d.through.BackendReady(false)
		return
	}
	d.pending.Store(disk)
	d.through.BackendReady(true)
	d.fillCache()
	s := disk.Stats()
	d.log.Info("cache", "device", c.Name, "objects", s.Objects, "bytes", s.Size)
}

// fillCache has the pieces of the boot pack written that are in memory, and came before the disk or too fast for it.
func (d *blockDaemon) fillCache() {
	s := d.pieces.Load()
	if s == nil || d.pending == nil || d.pending.Load() == nil {
		return
	}
	i := 0
	next := func() (chunk.Verified, bool) {
		for ; i < len(s.Map.Pieces); i++ {
			if v, held, _ := s.Piece(i); held && d.pending.Wants(v.ID()) {
				i++
				return v, true
			}
		}
		return chunk.Verified{}, false
	}
	if _, ok := next(); ok {
		i = 0
		d.through.Fill(next)
	}
}

func (d *blockDaemon) openDisk(c *blockapi.CacheDisk) (*cache.Disk, error) {
	size, err := c.File.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	var told sync.Once
	return cache.Open(
		c.File,
		size,
		cache.Options{Size: c.Size, ReadOnly: c.ReadOnly, Proofs: d.proofs, Failed: d.cacheFailed,
			Damaged: func(id chunk.ID) {
				told.Do(func() {
					d.ledger.report(blockapi.Incident{Kind: blockapi.CacheDamaged, Source: c.Name, Object: id.Name(),
						Message: "an object in the cache is not what it was; it, and others like it, are fetched " +
							"again"})
				})
			}},
	)
}

func (d *blockDaemon) cacheFailed(err error) {
	name := blockapi.PendingName // whose disk did not come
	if c := d.disk.Load(); c != nil {
		name = c.Name
	}
	d.log.Warn("cache", "device", name, "err", err)
	d.ledger.report(blockapi.Incident{Kind: blockapi.CacheFailed, Source: name, Message: err.Error()})
}

// closeCache waits until all objects are written to the disk. A node never comes to this; a power cut costs what was
// fetched in the last second.
func (d *blockDaemon) closeCache() {
	if d.through != nil {
		ctx, cancel := context.WithTimeout(context.Background(), cacheOpens)
		defer cancel()
		d.through.Close(ctx)
	}
}

// kept is a source that asks the node's cache before from. Without a cache it is from.
func (d *blockDaemon) kept(from chunk.Source) chunk.Source {
	if d.through == nil {
		return from
	}
	return d.through.Before(from)
}

// has reports whether the node's cache has an object; nil without a cache.
func (d *blockDaemon) has() func(chunk.ID) bool {
	if d.through == nil {
		return nil
	}
	return d.through.Backend.Has
}

// keepsSomething reports whether the node's cache has any object. Objects of another version count: the pack shares
// blocks with the version before.
func (d *blockDaemon) keepsSomething() bool {
	if d.through == nil {
		return false
	}
	if d.pending == nil {
		return false // memory is empty when a boot begins
	}
	disk := d.pending.Load()
	return disk != nil && disk.Stats().Objects > 0
}

// lowPriority keeps the goroutine on a thread of its own whose writes come after everybody's reads.
func lowPriority() {
	runtime.LockOSThread()
	const whoProcess, bestEffortLast = 1, 2<<13 | 7
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, whoProcess, 0, bestEffortLast) // schedulers without priorities refuse
}

// pendingCache is a cache disk that may still be opening. Until then it is empty and takes nothing.
type pendingCache struct{ atomic.Pointer[cache.Disk] }

// Get returns an object if the disk is there and has it.
func (k *pendingCache) Get(id chunk.ID, size int64) (chunk.Verified, bool) {
	if d := k.Load(); d != nil {
		return d.Get(id, size)
	}
	return chunk.Verified{}, false
}

// Has reports whether the disk is there and has an object.
func (k *pendingCache) Has(id chunk.ID) bool {
	d := k.Load()
	return d != nil && d.Has(id)
}

// Wants reports whether the disk is there and should have an object.
func (k *pendingCache) Wants(id chunk.ID) bool {
	d := k.Load()
	return d != nil && d.Wants(id)
}

// Put writes an object if the disk is there.
func (k *pendingCache) Put(v chunk.Verified) error {
	if d := k.Load(); d != nil {
		return d.Put(v)
	}
	return nil
}

// Sync makes durable what was written.
func (k *pendingCache) Sync() error {
	if d := k.Load(); d != nil {
		return d.Sync()
	}
	return nil
}
