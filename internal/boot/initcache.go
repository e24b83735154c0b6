package boot

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"pando/internal/cache"
)

// diskSet is the driver set that a node is sent when its group has its cache or its write layer on a disk.
const diskSet = "disk"

// Bounds of looking for the cache's disk. It goes on beside the boot, which waits for link and address anyway.
const (
	diskPoll  = 50 * time.Millisecond
	diskQuiet = 3 * time.Second  // without a new device: there is none. USB takes two
	diskFor   = 15 * time.Second // altogether
)

// diskWait is how much longer a boot waits for a disk once it needs it: for it to be found, and then for each thing
// that it is asked. It is changed by tests only.
var diskWait = 5 * time.Second

// diskFinder looks for the disk that was prepared as the node's cache.
type diskFinder struct {
	done chan struct{}
	once sync.Once
	name string // of the block device; "": none
	err  error
}

// findDisk begins to look, if the server sent drivers of disks; asked again, it does nothing.
func (m *machine) findDisk(ctx context.Context) {
	if _, err := os.Stat(filepath.Join(driverSets, diskSet+".json")); err != nil {
		return
	}
	if m.disks == nil {
		m.disks = &diskFinder{done: make(chan struct{})}
	}
	f := m.disks
	f.once.Do(func() {
		loader, err := m.diskLoader()
		if err != nil {
			f.err = err
			close(f.done)
			return
		}
		f.begin(func() (string, error) {
			return look(ctx, loader, func() string { return cacheDevice(sysfs, "/dev", blockDevices(sysfs)) })
		})
	})
}

// begin looks beside the boot: a disk that is broken keeps whoever opens it, for minutes or for ever.
func (f *diskFinder) begin(look func() (string, error)) {
	go func() {
		defer close(f.done)
		f.name, f.err = look()
	}()
}

// diskLoader loads drivers of disks beside those that are loaded.
func (m *machine) diskLoader() (*moduleLoader, error) {
	index, err := readDriverSets(driverSets, "")
	if err != nil {
		return nil, err
	}
	loader := newModuleLoader(index, m.cmd)
	if m.modules != nil {
		maps.Copy(loader.loaded, m.modules.loaded)
	}
	return loader, nil
}

// look loads drivers by what the machine has, until a disk is found or nothing new has appeared for a while.
func look(ctx context.Context, loader *moduleLoader, find func() string) (string, error) {
	begun, changed, devices := time.Now(), time.Now(), -1
	for {
		aliases := deviceAliases(sysfs)
		wanted := loader.wanted(aliases)
		err := loader.load(wanted)
		blocks := blockDevices(sysfs)
		if name := find(); name != "" {
			return name, nil
		}
		if n := len(aliases) + len(blocks); len(wanted) > 0 || n != devices {
			changed, devices = time.Now(), n
		}
		if time.Since(changed) > diskQuiet || time.Since(begun) > diskFor || ctx.Err() != nil {
			return "", err
		}
		time.Sleep(diskPoll)
	}
}

// notDisks are block devices that are no disks of the machine, or that take long to say that they are empty.
var notDisks = []string{"nbd", "loop", "ram", "zram", "sr", "fd", "dm-", "md"}

// blockDevices lists disks and partitions.
func blockDevices(sys string) (names []string) {
	entries, _ := os.ReadDir(filepath.Join(sys, "class/block"))
	for _, e := range entries {
		if !hasPrefix(e.Name(), notDisks) {
			names = append(names, e.Name())
		}
	}
	return names
}

func hasPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// cacheDevice picks the partition that bears the cache's name and begins as a cache does, or else a partition or
// whole disk that begins so, or else one that only bears the name: it is new, and is made a cache.
func cacheDevice(sys, dev string, names []string) string {
	parts := map[string]bool{} // disks that have partitions
	named := ""
	for _, n := range names {
		if partitionName(sys, n) == cache.PartitionName {
			if isCache(filepath.Join(dev, n)) {
				return n
			}
			named = cmp.Or(named, n) // it is new, or another disk's cache is worth more
		}
		if disk := diskOf(sys, n); disk != "" {
			parts[disk] = true
		}
	}
	for _, n := range names {
		if !parts[n] && isCache(filepath.Join(dev, n)) {
			return n
		}
	}
	return named
}

// partitionName is what the kernel read in the partition table, "" for none.
func partitionName(sys, name string) string {
	data, _ := os.ReadFile(filepath.Join(sys, "class/block", name, "uevent"))
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PARTNAME="); ok {
			return v
		}
	}
	return ""
}

// diskOf is the disk that a partition belongs to, "" for what is not a partition.
func diskOf(sys, name string) string {
	dir := filepath.Join(sys, "class/block", name)
	if _, err := os.Stat(filepath.Join(dir, "partition")); err != nil {
		return ""
	}
	to, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ""
	}
	return filepath.Base(filepath.Dir(to))
}

func isCache(device string) bool {
	f, err := os.Open(device)
	if err != nil {
		return false
	}
	defer f.Close()
	return cache.Probe(f)
}

// over is closed when it was looked everywhere; f may be nil: nobody looks.
func (f *diskFinder) over() <-chan struct{} {
	if f == nil {
		return nil
	}
	return f.done
}

// ended tells whether it was looked everywhere.
func (f *diskFinder) ended() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// none tells whether there is no disk for sure; f may be nil.
func (f *diskFinder) none() bool { return f == nil || f.ended() && f.name == "" }

// found tells whether there is one for sure; f may be nil.
func (f *diskFinder) found() bool { return f != nil && f.ended() && f.name != "" }

// wait waits until it was looked everywhere, for a while.
func (f *diskFinder) wait(ctx context.Context) error {
	enough := time.NewTimer(diskWait)
	defer enough.Stop()
	select {
	case <-f.done:
		return nil
	case <-enough.C:
		return fmt.Errorf("none was found after %s", diskWait)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
