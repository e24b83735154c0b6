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

// cacheStart is where the partition of a cache begins on its disk, and how much is cleared at both ends of what
// becomes a cache, so that nothing takes it for what it was.
const (
	cacheStart = 4 << 20
	cacheClear = 1 << 20

	cacheLeast int64 = cache.MinSize + 2*cacheStart // bytes of a disk
)

// Maker prepares a disk. Check and the write are two steps, so that a refusal is not reported as a loss, and a dry run
// finds it.
type Maker interface {
	// Check returns what prevents the use of a disk. It only reads.
	Check(d api.Disk, sector int) error
	// Write comes after Check. What was on the disk is lost when it fails.
	Write(f *os.File, d api.Disk, sector int) error
}

// cacheMaker makes a disk or partition a cache. Whatever can be one at all will do.
type cacheMaker struct{}

func (cacheMaker) Check(api.Disk, int) error { return nil }

func (cacheMaker) Write(f *os.File, d api.Disk, sector int) error { return writeCache(f, d, sector) }

// PrepareCache makes a disk or partition this node's cache. What is on it is lost.
func PrepareCache(sys, dev, proc, device string, dryRun bool) error {
	return Prepare(sys, dev, proc, device, dryRun, cacheMaker{})
}

// Prepare has a disk made the cache, once nothing speaks against it.
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
		return fmt.Errorf("open %s for itself: %w", device, err)
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
	return api.Disk{}, &problem.Problem{
		Err:  fmt.Errorf("the node has no disk %s", device),
		Hint: "`pando node cache NODE` lists its disks",
	}
}

// writeCache writes the cache: into a partition as it is, or into a new one that takes the whole disk.
func writeCache(f *os.File, d api.Disk, sector int) error {
	if d.Of != "" {
		return formatCache(f, d.Size)
	}
	if err := clearEnds(f, d.Size); err != nil {
		return err
	}
	_, end := cache.Usable(d.Size, sector)
	p := cache.Partition{Type: cache.TypeCache, Name: cache.PartitionName, Start: cacheStart, Size: end - cacheStart}
	// The cache before the table that leads to it: half of this work leaves a disk that nobody takes for one.
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

// clearEnds makes nothing take a disk or partition for what it was.
func clearEnds(f *os.File, size int64) error {
	zeros := make([]byte, cacheClear)
	for _, at := range []int64{0, size - cacheClear} {
		if _, err := f.WriteAt(zeros, at); err != nil {
			return err
		}
	}
	return nil
}

// newCache makes a partition a cache, unless there is one at either of its ends, and returns what to say of it. One
// that the partition has no room for any more, because it was copied to a smaller disk, is lost: nothing of it can
// be read, and all of it can be fetched again.
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
		return "", nil // its first block is damaged, and the other end says what it has
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
			Hint: "is the disk broken? the boot goes on without",
		}
	}
	return made, nil
}
