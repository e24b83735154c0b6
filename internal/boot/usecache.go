package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/cache"
	"pando/internal/fleet"
	"pando/internal/trace"
)

// useCache completes the block daemon's configuration by what the group keeps, and returns what to say of it. A cache that
// cannot be used is a fact on the timeline and nothing else.
func (m *machine) useCache(ctx context.Context, sys string, c *BlockConfig) string {
	a := m.assigned().Cache
	switch {
	case a == nil:
		return ""
	case a.Kind == fleet.CacheRAM:
		var less string
		c.RAM, less = cacheRAM(a.Size, machineMemory())
		return less
	}
	disk, err := m.openCacheDisk(ctx, sys, a.Size)
	made := ""
	if err == nil {
		made, err = disk.makeNew(ctx, sys)
	}
	if err != nil {
		m.event(trace.Event{Stage: trace.Device, Kind: trace.Info, Message: "no cache on a disk: " + err.Error(),
			Hint: cmp.Or(hintOf(err), "the boot goes on without; `pando node cache` shows the node's disks and prepares one")})
		return ""
	}
	c.Disk = disk
	switch {
	case disk.ReadOnly:
		return ", cache on " + disk.Name + ", which is read-only"
	case made != "":
		return ", " + made
	}
	return ", cache on " + disk.Name
}

// cacheRAM is how many bytes a node with so much memory keeps of the asked ones, and what to say of it when they are less. An unknown memory is 0. What is kept is
// locked in memory, of a program that the kernel does not end when memory runs out.
func cacheRAM(asked, memory int64) (int64, string) {
	most := memory / sharePart
	if memory <= 0 || asked <= most {
		return asked, ""
	}
	return most, fmt.Sprintf(", cache of %d MB in memory and not of %d: a quarter of what the node has", most/1e6, asked/1e6)
}

// openCacheDisk opens the disk that was found to be the node's cache.
func (m *machine) openCacheDisk(ctx context.Context, sys string, size int64) (*CacheDisk, error) {
	if m.disks == nil {
		return nil, errors.New("the server sent no drivers of disks")
	}
	if err := m.disks.wait(ctx); err != nil {
		return nil, err
	}
	if m.disks.name == "" {
		return nil, errors.Join(errors.New("none is prepared for it"), m.disks.err)
	}
	c := &CacheDisk{Name: "/dev/" + m.disks.name, Size: size}
	return within(ctx, c.Name, func() (*CacheDisk, error) { return c, c.open(sys) })
}

// within asks a disk, and waits for it no longer than diskWait: one that is broken may never answer. What comes later is dropped.
func within[T any](ctx context.Context, device string, ask func() (T, error)) (T, error) {
	type answer struct {
		got T
		err error
	}
	there := make(chan answer, 1)
	go func() {
		got, err := ask()
		there <- answer{got, err}
	}()
	enough := time.NewTimer(diskWait)
	defer enough.Stop()
	var none T
	select {
	case a := <-there:
		return a.got, a.err
	case <-enough.C:
		return none, &Problem{Err: fmt.Errorf("%s does not answer: nothing came after %s", device, diskWait),
			Hint: "the boot goes on without; is the disk broken?"}
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// open opens the device exclusively: what the image mounts or formats later is refused by the kernel.
func (c *CacheDisk) open(sys string) (err error) {
	c.ReadOnly = sysValue(filepath.Join(sys, "class/block", filepath.Base(c.Name)), "ro") == "1"
	if !c.ReadOnly {
		c.File, err = os.OpenFile(c.Name, os.O_RDWR|unix.O_EXCL, 0)
		c.ReadOnly = errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
	}
	if c.ReadOnly {
		c.File, err = os.OpenFile(c.Name, os.O_RDONLY|unix.O_EXCL, 0)
	}
	return err
}

// makeNew makes a cache of a partition that bears the name of one and is none yet, or none any more, and returns what to say of that. Whoever gave it
// the name meant it; what bears no name is left as it is. When it fails the disk is closed.
func (c *CacheDisk) makeNew(ctx context.Context, sys string) (string, error) {
	if c.ReadOnly || partitionName(sys, filepath.Base(c.Name)) != cache.PartitionName {
		return "", nil
	}
	made, err := within(ctx, c.Name, func() (string, error) { return newCache(c.File, c.Name) })
	if err != nil {
		c.File.Close()
	}
	return made, err
}
