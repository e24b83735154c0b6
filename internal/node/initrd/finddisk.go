package initrd

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"pando/internal/disk"
	"pando/internal/hardware"
	"pando/internal/kmod"
)

// diskSet is the driver set that the server sends if the group has its cache or its write layer on a disk.
const diskSet = "disk"

// Bounds of the search for the cache disk. It runs beside the boot, which waits for link and address anyway.
const (
	diskPoll  = 50 * time.Millisecond
	diskQuiet = 3 * time.Second  // without a new device the search ends; USB takes two seconds
	diskFor   = 15 * time.Second // in all
)

// diskWait is how long a boot waits for the disk once it needs it: until the disk is found, and then for each request
// to it.
const diskWait = 5 * time.Second

// diskFinder searches for the disk that was prepared as the node's cache.
type diskFinder struct {
	done chan struct{}
	once sync.Once
	name string // name of the block device, such as "sda1"; "": none
	err  error
}

// findDisk starts the search, if the server sent drivers of disks. Later calls do nothing.
func (k *cacheDisk) findDisk(ctx context.Context) {
	if _, err := os.Stat(filepath.Join(kmod.DriverSets, diskSet+".json")); err != nil {
		return
	}
	if k.disks == nil {
		k.disks = &diskFinder{done: make(chan struct{})}
	}
	f := k.disks
	f.once.Do(func() {
		loader, err := k.loader()
		if err != nil {
			f.err = err
			close(f.done)
			return
		}
		f.begin(func() (string, error) {
			return look(
				ctx,
				loader,
				func() string { return disk.CacheDevice(hardware.Sysfs, "/dev", disk.BlockDevices(hardware.Sysfs)) },
			)
		})
	})
}

// begin searches in the background, because opening a broken disk may block for minutes or for ever.
func (f *diskFinder) begin(look func() (string, error)) {
	go func() {
		defer close(f.done)
		f.name, f.err = look()
	}()
}

// diskLoader returns a loader for all driver sets that knows the modules that are loaded already.
func (d *drivers) diskLoader() (*kmod.Loader, error) {
	index, err := kmod.ReadIndex(kmod.DriverSets, "")
	if err != nil {
		return nil, err
	}
	loader := kmod.NewLoader(index, d.cmd)
	if d.modules != nil {
		maps.Copy(loader.Loaded, d.modules.Loaded)
	}
	return loader, nil
}

// look loads drivers for the machine's devices until find returns a disk or no new device has appeared for a while.
func look(ctx context.Context, loader *kmod.Loader, find func() string) (string, error) {
	begun, changed, devices := time.Now(), time.Now(), -1
	for {
		aliases := kmod.DeviceAliases(hardware.Sysfs)
		wanted := loader.Wanted(aliases)
		err := loader.Load(wanted)
		blocks := disk.BlockDevices(hardware.Sysfs)
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

// over returns a channel that is closed when the search has ended. f may be nil: the channel is nil then.
func (f *diskFinder) over() <-chan struct{} {
	if f == nil {
		return nil
	}
	return f.done
}

// ended reports whether the search has ended.
func (f *diskFinder) ended() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// none reports whether it is certain that there is no disk. f may be nil.
func (f *diskFinder) none() bool { return f == nil || f.ended() && f.name == "" }

// found reports whether it is certain that there is a disk. f may be nil.
func (f *diskFinder) found() bool { return f != nil && f.ended() && f.name != "" }

// wait waits until the search has ended. It returns an error after the time most.
func (f *diskFinder) wait(ctx context.Context, most time.Duration) error {
	enough := time.NewTimer(most)
	defer enough.Stop()
	select {
	case <-f.done:
		return nil
	case <-enough.C:
		return fmt.Errorf("none was found after %s", most)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// findDevice returns the device that find finds, "" if there is none. It waits for the drivers of disks, and then
// searches once more, because the first search ends as soon as it has found the cache.
func (k *cacheDisk) findDevice(ctx context.Context, find func() string) (string, error) {
	name := find()
	if name != "" || k.disks == nil {
		return name, nil
	}
	err := k.disks.wait(ctx, k.diskWait)
	if err != nil {
		err = k.disks.wait(ctx, k.diskWait) // USB takes longer
	}
	if err != nil {
		return "", err
	}
	if name = find(); name != "" || k.disks.name == "" {
		return name, nil
	}
	loader, err := k.loader()
	if err != nil {
		return "", err
	}
	return look(ctx, loader, find)
}
