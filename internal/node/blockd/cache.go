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

// cacheHeap bounds the memory of a disk cache in bytes: its directory, and half of the objects that wait to be
// written. The other half is kept as pieces of the boot pack anyway.
const cacheHeap = 16 << 20

// cacheHeapOf returns the heap in bytes that the configured cache may use.
func cacheHeapOf(c blockapi.Config) int64 {
	if c.Disk != nil || c.Pending != nil {
		return c.RAM + cacheHeap
	}
	return c.RAM
}

// cacheOpens is how long a boot waits until the cache's tables, some megabytes, are read. After that the boot goes on
// without the cache, and uses it once it is open.
const cacheOpens = 2 * time.Second

var errCacheHangs = errors.New("the disk answers too late, and is not read until its answers arrive")

// openCache starts to use the configured cache.
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

// awaitCache returns when the cache is open, or its time is over. If the node is not known to have a cache,
// pending.Wait is 0.
func (d *blockDaemon) awaitCache(ctx context.Context, came, opened <-chan struct{}) {
	if pending := d.cfg.Pending; pending != nil && !pending.Came() {
		select {
		case <-came:
		case <-time.After(pending.Wait):
			d.log.Info("cache disk is not there yet; the boot begins without it", "waited", pending.Wait)
			return
		case <-ctx.Done():
			return
		}
	}
	select {
	case <-opened:
	case <-time.After(cacheOpens):
		d.cacheFailed(fmt.Errorf("its tables are not read after %s; the boot begins without it", cacheOpens))
	case <-ctx.Done():
	}
}

// useDisk receives the disk, closes came, and opens the cache on it.
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
	d.log.Info("cache disk is used", "device", c.Name, "objects", s.Objects, "bytes", s.Size)
}

// fillCache writes the boot pack's pieces that are in memory to the cache: they arrived before the disk, or faster
// than it could write.
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
	name := blockapi.PendingName // the disk did not appear
	if c := d.disk.Load(); c != nil {
		name = c.Name
	}
	d.log.Warn("cache disk is not used", "device", name, "err", err)
	d.ledger.report(blockapi.Incident{Kind: blockapi.CacheFailed, Source: name, Message: err.Error()})
}

// closeCache waits until all objects are written to the disk, at most for cacheOpens. A power cut loses the objects
// of about a second.
func (d *blockDaemon) closeCache() {
	if d.through != nil {
		ctx, cancel := context.WithTimeout(context.Background(), cacheOpens)
		defer cancel()
		d.through.Close(ctx)
	}
}

// kept returns a source that reads the node's cache before from. Without a cache it returns from.
func (d *blockDaemon) kept(from chunk.Source) chunk.Source {
	if d.through == nil {
		return from
	}
	return d.through.Before(from)
}

// has returns a function that reports whether the node's cache has an object, or nil without a cache.
func (d *blockDaemon) has() func(chunk.ID) bool {
	if d.through == nil {
		return nil
	}
	return d.through.Backend.Has
}

// keepsSomething reports whether the disk cache has any object. Objects of another version count, because versions
// share blocks.
func (d *blockDaemon) keepsSomething() bool {
	if d.through == nil {
		return false
	}
	if d.pending == nil {
		return false // a cache in memory is empty at the start of a boot
	}
	disk := d.pending.Load()
	return disk != nil && disk.Stats().Objects > 0
}

// lowPriority locks the goroutine to a thread with the lowest I/O priority, so that its writes do not delay reads.
func lowPriority() {
	runtime.LockOSThread()
	const whoProcess, bestEffortLast = 1, 2<<13 | 7
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, whoProcess, 0, bestEffortLast) // some I/O schedulers have none
}

// pendingCache is a disk cache that may not be open yet. Until then it is empty and ignores writes.
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

// Wants reports whether the disk is there and lacks an object that it should have.
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

// Sync flushes the writes to the disk.
func (k *pendingCache) Sync() error {
	if d := k.Load(); d != nil {
		return d.Sync()
	}
	return nil
}
