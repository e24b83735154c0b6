package boot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"pando/internal/api"
	"pando/internal/cache"

	"golang.org/x/sys/unix"
)

// cacheStart is where the partition of a cache begins on its disk, and how much is cleared at both ends of what becomes a
// cache, so that nothing takes it for what it was.
const (
	cacheStart = 4 << 20
	cacheClear = 1 << 20

	cacheLeast int64 = cache.MinSize + 2*cacheStart // bytes of a disk
)

// prepareCache makes a disk or partition this node's cache. What is on it is lost.
func prepareCache(sys, dev, proc, device string, dryRun bool) error {
	d, err := diskNamed(listDisks(sys, dev, proc), device)
	if err != nil {
		return err
	}
	switch {
	case d.Used != "":
		return &Problem{Err: fmt.Errorf("%s is in use: %s", device, d.Used), Hint: "unmount it, or name another; nothing was written"}
	case d.ReadOnly:
		return &Problem{Err: fmt.Errorf("%s is read-only", device), Hint: "is there a switch on it? nothing was written"}
	case d.Size < cacheLeast:
		return &Problem{Err: fmt.Errorf("%s has %d MB, a cache needs %d", device, d.Size/1e6, cacheLeast/1e6+1), Hint: "name another; nothing was written"}
	}
	name := filepath.Base(device)
	f, err := os.OpenFile(filepath.Join(dev, name), os.O_RDWR|unix.O_EXCL, 0)
	if err != nil {
		return fmt.Errorf("open %s for itself: %w", device, err)
	}
	defer f.Close()
	if dryRun {
		return nil
	}
	sector, err := strconv.Atoi(sysValue(filepath.Join(sys, "class/block", name), "queue/logical_block_size"))
	if err != nil {
		sector = 512
	}
	if err := writeCache(f, d, sector); err != nil {
		return &Problem{Err: fmt.Errorf("prepare %s: %w", device, err), Hint: "is the disk broken? what was on it is lost"}
	}
	if d.Of == "" {
		// Only for those who look at the running node: the next boot reads the table anyway.
		_ = unix.IoctlSetInt(int(f.Fd()), unix.BLKRRPART, 0)
	}
	return nil
}

func diskNamed(disks []api.Disk, device string) (api.Disk, error) {
	for _, d := range disks {
		if d.Name == device {
			return d, nil
		}
	}
	return api.Disk{}, &Problem{Err: fmt.Errorf("the node has no disk %s", device), Hint: "`pando node cache NODE` lists its disks"}
}

// writeCache writes the cache: into a partition as it is, or into a new one that takes the whole disk.
func writeCache(f *os.File, d api.Disk, sector int) error {
	zeros := make([]byte, cacheClear)
	for _, at := range []int64{0, d.Size - cacheClear} {
		if _, err := f.WriteAt(zeros, at); err != nil {
			return err
		}
	}
	if d.Of != "" {
		return errors.Join(cache.Format(f, d.Size), f.Sync())
	}
	_, end := cache.Usable(d.Size, sector)
	p := cache.Partition{Type: cache.TypeCache, Name: cache.PartitionName, Start: cacheStart, Size: end - cacheStart}
	// The cache before the table that leads to it: half of this work leaves a disk that nobody takes for one.
	if err := cache.Format(cache.Section{Area: f, Start: p.Start}, p.Size); err != nil {
		return err
	}
	return cache.WritePartitions(f, d.Size, sector, []cache.Partition{p})
}
