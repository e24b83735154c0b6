package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/cache"
	"pando/internal/hardware"
	"pando/internal/problem"
)

// cacheStart is the offset in bytes of the cache's partition on its disk. cacheClear bytes at both ends are cleared,
// so that nothing recognizes the old content.
const (
	cacheStart = 4 << 20
	cacheClear = 1 << 20

	cacheLeast int64 = cache.MinSize + 2*cacheStart // smallest disk in bytes
)

// Maker prepares a disk. Check and Write are separate, so that a refusal is not reported as a loss of data, and so
// that a dry run finds it.
type Maker interface {
	// Check returns why the disk cannot be used. It only reads. sector is the disk's sector size in bytes.
	Check(d api.Disk, sector int) error
	// Write is called after Check. If it fails, what was on the disk is lost.
	Write(f *os.File, d api.Disk, sector int) error
}

// cacheMaker makes any disk or partition a cache.
type cacheMaker struct{}

func (cacheMaker) Check(api.Disk, int) error { return nil }

func (cacheMaker) Write(f *os.File, d api.Disk, sector int) error { return writeCache(f, d, sector) }

// PrepareCache makes a disk or partition this node's cache. What was on it is lost.
func PrepareCache(sys, dev, proc, device string, dryRun bool) error {
	return Prepare(sys, dev, proc, device, dryRun, cacheMaker{})
}

// Prepare lets m prepare a disk that exists, is not in use, can be written and is large enough.
func Prepare(sys, dev, proc, device string, dryRun bool, m Maker) error {
	d, err := diskNamed(List(sys, dev, proc), device)
	if err != nil {
		return err
	}
	switch {
	case d.Used != "":
		return &problem.Problem{
			Err:  fmt.Errorf("%s is in use: %s", device, d.Used),
			Hint: "unmount it, or name another; nothing was written",
		}
	case d.ReadOnly:
		return &problem.Problem{
			Err:  fmt.Errorf("%s is read-only", device),
			Hint: "is there a switch on it? nothing was written",
		}
	case d.Size < cacheLeast:
		return &problem.Problem{
			Err:  fmt.Errorf("%s has %d MB, a cache needs %d", device, d.Size/1e6, cacheLeast/1e6+1),
			Hint: "name another; nothing was written",
		}
	}
	name := filepath.Base(device)
	f, err := os.OpenFile(filepath.Join(dev, name), os.O_RDWR|unix.O_EXCL, 0)
	if err != nil {
		return fmt.Errorf("open %s exclusively: %w", device, err)
	}
	defer f.Close()
	sector, err := strconv.Atoi(hardware.SysValue(filepath.Join(sys, "class/block", name), "queue/logical_block_size"))
	if err != nil {
		sector = 512
	}
	if err := m.Check(d, sector); err != nil || dryRun {
		return err
	}
	if err := m.Write(f, d, sector); err != nil {
		return &problem.Problem{
			Err:  fmt.Errorf("prepare %s: %w", device, err),
			Hint: "is the disk broken? what was on it is lost",
		}
	}
	if d.Of == "" {
		// Only programs on the running node need this: the next boot reads the table anyway.
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
	return api.Disk{}, &problem.Problem{
		Err:  fmt.Errorf("the node has no disk %s", device),
		Hint: "`pando node cache NODE` lists its disks",
	}
}

// writeCache makes a partition a cache, or makes a new partition that fills the whole disk.
func writeCache(f *os.File, d api.Disk, sector int) error {
	if d.Of != "" {
		return formatCache(f, d.Size)
	}
	if err := clearEnds(f, d.Size); err != nil {
		return err
	}
	_, end := cache.Usable(d.Size, sector)
	p := cache.Partition{Type: cache.TypeCache, Name: cache.PartitionName, Start: cacheStart, Size: end - cacheStart}
	// The cache is written before the partition table that points to it. If the work is interrupted, nothing takes
	// the disk for a cache.
	if err := cache.Format(cache.Section{Area: f, Start: p.Start}, p.Size); err != nil {
		return err
	}
	return cache.WritePartitions(f, d.Size, sector, []cache.Partition{p})
}

// formatCache makes a partition an empty cache.
func formatCache(f *os.File, size int64) error {
	if err := clearEnds(f, size); err != nil {
		return err
	}
	return errors.Join(cache.Format(f, size), f.Sync())
}

// clearEnds clears both ends of a disk or partition, so that nothing recognizes its old content.
func clearEnds(f *os.File, size int64) error {
	zeros := make([]byte, cacheClear)
	for _, at := range []int64{0, size - cacheClear} {
		if _, err := f.WriteAt(zeros, at); err != nil {
			return err
		}
	}
	return nil
}

// newCache makes a partition a cache, unless it has one at either end, and returns a message. A cache that is larger
// than the partition (it was copied to a smaller disk) is replaced: it cannot be read, and its objects can be fetched
// again.
func newCache(f *os.File, device string) (made string, err error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return "", fmt.Errorf("make %s a cache: %w", device, err)
	}
	cut := cache.Cut(f, size)
	if cut == 0 && cache.Probe(f) {
		return "", nil
	}
	if size < cache.MinSize {
		return "", &problem.Problem{
			Err: fmt.Errorf(
				"make %s a cache: it has %d MB, a cache needs %d",
				device,
				size/1e6,
				int64(cache.MinSize)/1e6+1,
			),
			Hint: "make the partition larger, or name another " + cache.PartitionName + "; nothing was written",
		}
	}
	blank, err := cache.Blank(f, size)
	if err != nil {
		return "", fmt.Errorf("make %s a cache: %w", device, err)
	}
	if !blank {
		return "", nil // only its first block is damaged: the other end still describes the cache
	}
	made = "new cache on " + device
	if had := ContentOf(f); cut > 0 {
		made += fmt.Sprintf(", which has %d MB and had a cache of %d", size/1e6, cut/1e6)
	} else if had != "" {
		made += ", which had " + had
	}
	if err := formatCache(f, size); err != nil {
		return "", &problem.Problem{
			Err:  fmt.Errorf("make %s a cache: %w", device, err),
			Hint: "is the disk broken? the boot goes on without a cache",
		}
	}
	return made, nil
}
