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

// useCache adds the node's cache to the block daemon's configuration, and returns the end of the phase's message. A
// cache that cannot be used is only reported. If the disk is still being searched for, the daemons get it later.
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
	if k.cache == nil || k.cache.failed() { // the disk may have appeared since the last attempt
		k.cache = k.searchCache(context.WithoutCancel(ctx), sys, a.Size, k.hadCache(s))
	}
	if k.disks.none() {
		<-k.cache.done // returns at once
	}
	if !k.cache.settled() && k.handOver(c, k.hadCache(s)) == nil {
		return ""
	}
	k.cache.need()
	<-k.cache.done
	c.Disk = k.cache.disk
	return ""
}

// cacheSearch is the background search for the cache disk of a boot.
type cacheSearch struct {
	once   sync.Once
	needed chan struct{}       // closed when the boot needs the result
	done   chan struct{}       // closed when the result is on the timeline
	disk   *blockapi.CacheDisk // valid after done; nil: there is none to use
}

// need tells the search that the boot waits for it from now on.
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

// searchCache waits for the disk, opens it, makes a cache of a new one, and reports the result. had: the node is
// known to have a cache.
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

// tellCache reports whether there is a cache. During a soft reboot the event has no attribute for the cache, because
// no disks are searched then.
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

// handOver adds a socket to the configuration, over which the daemons get the disk once it is found.
func (k *cacheDisk) handOver(c *blockapi.Config, had bool) error {
	ours, theirs, err := rootdaemon.SocketPair("cache")
	if err != nil {
		return err
	}
	c.Pending = &blockapi.PendingDisk{File: theirs}
	if had {
		c.Pending.Wait = 3 * k.diskWait // time to find it, to open it, and to make a cache on it
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
			!errors.Is(err, unix.EPIPE) { // the daemons of a failed attempt are gone
			k.timeline.console.logf("hand the cache's disk over: %v", err)
		}
	}()
	return nil
}

// hadCache reports whether the node is known to have a cache: its last boot reported one, or the disk was found
// already. A boot medium counts too, because its cache is used for boots without a server.
func (k *cacheDisk) hadCache(s *Session) bool {
	return s.Answer.Cached || k.timeline.config.Medium != "" || k.disks.found()
}

// settleCache waits until the daemons have the disk, or know that there is none, and returns the disk. The search has
// ended then.
func (k *cacheDisk) settleCache() *blockapi.CacheDisk {
	if k.cache == nil {
		return nil
	}
	k.cache.need()
	<-k.cache.done // the search has a time limit
	if k.handed != nil {
		<-k.handed
	}
	return k.cache.disk
}

// cacheRAM returns how many of the requested bytes a node with this memory keeps, at most a quarter, and the end of
// the phase's message if that is less. memory is 0 if unknown. The limit exists because the cache is locked in the
// memory of a daemon that the OOM killer spares.
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

// openCacheDisk waits for the search and opens the disk that it found.
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
