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

// diskSet is the driver set that a node is sent when its group has its cache or its write layer on a disk.
const diskSet = "disk"

// Bounds of looking for the cache's disk. It goes on beside the boot, which waits for link and address anyway.
const (
	diskPoll  = 50 * time.Millisecond
	diskQuiet = 3 * time.Second  // without a new device: there is none. USB takes two
	diskFor   = 15 * time.Second // altogether
)

// diskWait is how much longer a boot waits for a disk once it needs it: for it to be found, and then for each thing
// that it is asked.
const diskWait = 5 * time.Second

// diskFinder looks for the disk that was prepared as the node's cache.
type diskFinder struct {
	done chan struct{}
	once sync.Once
	name string // of the block device; "": none
	err  error
}

// findDisk begins to look, if the server sent drivers of disks; asked again, it does nothing.
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

// begin looks beside the boot: a disk that is broken keeps whoever opens it, for minutes or for ever.
func (f *diskFinder) begin(look func() (string, error)) {
	go func() {
		defer close(f.done)
		f.name, f.err = look()
	}()
}

// diskLoader loads drivers of disks beside those that are loaded.
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

// look loads drivers by what the machine has, until a disk is found or nothing new has appeared for a while.
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

// over is closed when it was looked everywhere; f may be nil: nobody looks.
func (f *diskFinder) over() <-chan struct{} {
	if f == nil {
		return nil
	}
	return f.done
}

// ended reports whether it was looked everywhere.
func (f *diskFinder) ended() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// none reports whether there is no disk for sure; f may be nil.
func (f *diskFinder) none() bool { return f == nil || f.ended() && f.name == "" }

// found reports whether there is one for sure; f may be nil.
func (f *diskFinder) found() bool { return f != nil && f.ended() && f.name != "" }

// wait waits until it was looked everywhere, for a while.
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

// findDevice returns the device that find finds, "" for none. It waits for the drivers of disks, as a boot without a
// cache's disk does not, and then looks once more, because the cache may have been found before.
func (k *cacheDisk) findDevice(ctx context.Context, find func() string) (string, error) {
	name := find()
	if name != "" || k.disks == nil {
		return name, nil
	}
	err := k.disks.wait(ctx, k.diskWait)
	if err != nil {
		err = k.disks.wait(ctx, k.diskWait) // USB takes its time
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
