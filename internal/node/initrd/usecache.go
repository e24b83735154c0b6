package initrd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/disk"
	"pando/internal/fleet"
	"pando/internal/hardware"
	"pando/internal/problem"
	"pando/internal/rootdaemon"
	"pando/internal/trace"
)

// useCache completes the block daemon's configuration by what the group keeps, and returns what to say of it. A
// cache that cannot be used is a fact on the timeline and nothing else. What may still be looked for is passed on
// when it is there.
func (k *cacheDisk) useCache(ctx context.Context, sys string, s *Session, c *blockapi.Config) string {
	a := s.Assignment.Cache
	switch {
	case a == nil:
		return ""
	case a.Kind == fleet.CacheRAM:
		var less string
		c.RAM, less = cacheRAM(a.Size, hardware.Memory())
		return less
	}
	if k.cache == nil || k.cache.failed() { // it may be there at the next attempt
		k.cache = k.searchCache(context.WithoutCancel(ctx), sys, a.Size, k.hadCache(s))
	}
	if k.disks.none() {
		<-k.cache.done // at once
	}
	if !k.cache.settled() && k.handOver(c, k.hadCache(s)) == nil {
		return ""
	}
	k.cache.need()
	<-k.cache.done
	c.Disk = k.cache.disk
	return ""
}

// cacheSearch is how a boot comes to the disk of its cache, beside the phases.
type cacheSearch struct {
	once   sync.Once
	needed chan struct{}       // closed when the boot waits for it
	done   chan struct{}       // closed when the timeline has the answer
	disk   *blockapi.CacheDisk // nil: none can be used
}

// need says that the boot waits from now on.
func (s *cacheSearch) need() { s.once.Do(func() { close(s.needed) }) }

func (s *cacheSearch) settled() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *cacheSearch) failed() bool { return s.settled() && s.disk == nil }

// searchCache waits for the disk, opens it, makes a cache of a new one, and tells.
func (k *cacheDisk) searchCache(ctx context.Context, sys string, size int64, had bool) *cacheSearch {
	s := &cacheSearch{needed: make(chan struct{}), done: make(chan struct{})}
	if had || k.disks == nil {
		s.need()
	}
	go func() {
		defer close(s.done)
		select {
		case <-s.needed:
		case <-k.disks.over():
		}
		made, err := guarded(ctx, Phase{Run: func(ctx context.Context) (made string, err error) {
			found, err := k.openCacheDisk(ctx, sys, size)
			if err == nil {
				made, err = disk.MakeNewCache(ctx, found, sys, k.diskWait)
			}
			if err == nil {
				s.disk = found
			}
			return made, err
		}})
		k.tellCache(s.disk, made, err)
	}()
	return s
}

// tellCache puts on the timeline whether there is a cache. A machine that boots from what runs on it looks for no
// disks: it says nothing of them to go by.
func (k *cacheDisk) tellCache(disk *blockapi.CacheDisk, made string, err error) {
	e := trace.Event{Stage: trace.Device, Kind: trace.Info}
	cache := string(fleet.CacheNone)
	if err != nil {
		e.Message = "no cache on a disk: " + err.Error()
		e.Hint = cmp.Or(
			problem.HintOf(err),
			"the boot goes on without; `pando node cache` shows the node's disks and prepares one",
		)
	} else {
		cache, e.Message = disk.Name, cmp.Or(made, "cache on "+disk.Name)
		if disk.ReadOnly {
			e.Message += ", which is read-only"
		}
	}
	if !k.running {
		e.Attrs = map[string]string{trace.AttrCache: cache}
	}
	k.timeline.event(e)
}

// handOver has the daemons of a configuration get the disk when it is there.
func (k *cacheDisk) handOver(c *blockapi.Config, had bool) error {
	ours, theirs, err := rootdaemon.SocketPair("cache")
	if err != nil {
		return err
	}
	c.Pending = &blockapi.PendingDisk{File: theirs}
	if had {
		c.Pending.Wait = 3 * k.diskWait // for it to be found, to be opened, and to be made a cache
	}
	search, handed := k.cache, make(chan struct{})
	k.handed = handed
	go func() {
		defer close(handed)
		defer ours.Close()
		<-search.done
		if search.disk == nil {
			return
		}
		if err := search.disk.Send(ours); err != nil &&
			!errors.Is(err, unix.EPIPE) { // nobody listens where the attempt is over
			k.timeline.console.logf("hand the cache's disk over: %v", err)
		}
	}()
	return nil
}

// hadCache reports whether the node is known to have a cache: the server has heard so in its last boot, or it was
// found by now. Who starts from a boot medium may boot without a server, from the cache beside it.
func (k *cacheDisk) hadCache(s *Session) bool {
	return s.Answer.Cached || k.timeline.config.Medium != "" || k.disks.found()
}

// settleCache waits until the daemons have the disk, or know that there is none, and returns it. From here
// on nobody looks for it any more.
func (k *cacheDisk) settleCache() *blockapi.CacheDisk {
	if k.cache == nil {
		return nil
	}
	k.cache.need()
	<-k.cache.done // it is bounded
	if k.handed != nil {
		<-k.handed
	}
	return k.cache.disk
}

// cacheRAM is how many bytes a node with so much memory keeps of the asked ones, and what to say of it when they
// are less. An unknown memory is 0. What is kept is locked in memory, of a program that the kernel does not end
// when memory runs out.
func cacheRAM(asked, memory int64) (int64, string) {
	most := memory / 4
	if memory <= 0 || asked <= most {
		return asked, ""
	}
	return most, fmt.Sprintf(
		", cache of %d MB in memory and not of %d: a quarter of what the node has",
		most/1e6,
		asked/1e6,
	)
}

// openCacheDisk opens the disk that was found to be the node's cache.
func (k *cacheDisk) openCacheDisk(ctx context.Context, sys string, size int64) (*blockapi.CacheDisk, error) {
	if k.disks == nil {
		return nil, errors.New("the server sent no drivers of disks")
	}
	if err := k.disks.wait(ctx, k.diskWait); err != nil {
		return nil, err
	}
	if k.disks.name == "" {
		return nil, errors.Join(errors.New("none is prepared for it"), k.disks.err)
	}
	c := &blockapi.CacheDisk{Name: "/dev/" + k.disks.name, Size: size}
	return disk.Within(
		ctx,
		c.Name,
		k.diskWait,
		func() (*blockapi.CacheDisk, error) { return c, disk.OpenCacheFile(c, sys) },
	)
}
