package initrd

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"pando/internal/build/initramfs"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/store"
)

// Bounds of making disk drivers: how many versions' drivers are kept, some megabytes each, and how long a boot waits
// for them. Making takes seconds, once for a version; it begins with the first script of a group with a cache on disk.
const (
	maxDiskDrivers  = 4
	diskDriversMost = 20 * time.Second
)

// DiskDrivers makes and keeps the driver cpio for nodes that have a cache on a disk.
type DiskDrivers struct {
	make func(context.Context, image.Manifest) (initramfs.DriverCPIO, error)
	log  *slog.Logger

	mu   sync.Mutex
	made map[fleet.Digest]*DiskDriver
}

// DiskDriver is the cpio of disk drivers of one version. It may still be in the making.
type DiskDriver struct {
	done chan struct{}
	cpio []byte
	err  error
}

// NewDiskDrivers returns a maker of drivers from the kernel modules of the versions in a store.
func NewDiskDrivers(d *store.Dir, log *slog.Logger) *DiskDrivers {
	return &DiskDrivers{log: log, made: map[fleet.Digest]*DiskDriver{},
		make: func(ctx context.Context, m image.Manifest) (initramfs.DriverCPIO, error) {
			return initramfs.DiskDrivers(ctx, d, m)
		}}
}

// Prepare begins to make the drivers of a version, unless they exist or are being made.
func (d *DiskDrivers) Prepare(version fleet.Digest, m image.Manifest) *DiskDriver {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x, ok := d.made[version]; ok {
		return x
	}
	if len(d.made) >= maxDiskDrivers {
		clear(d.made) // callers that wait for one of these still get it
	}
	x := &DiskDriver{done: make(chan struct{})}
	d.made[version] = x
	go func() {
		defer close(x.done)
		began := time.Now()
		// Boots may stop waiting. The result then serves the next boot.
		cpio, err := d.make(context.Background(), m)
		if x.cpio, x.err = cpio.Data, err; err != nil {
			d.log.Warn("disk drivers cannot be made", "version", version.Short(), "err", err)
			return
		}
		d.log.Info(
			"disk drivers made",
			"version",
			version.Short(),
			"bytes",
			len(cpio.Data),
			"modules",
			len(cpio.Modules),
			"took",
			time.Since(began).Round(time.Millisecond),
		)
	}()
	return x
}

// Get waits for the drivers of a version. After an error the boot goes on without them.
func (d *DiskDrivers) Get(ctx context.Context, version fleet.Digest, m image.Manifest) ([]byte, error) {
	x := d.Prepare(version, m)
	enough := time.NewTimer(diskDriversMost)
	defer enough.Stop()
	select {
	case <-x.done:
		return x.cpio, x.err
	case <-enough.C:
		return nil, fmt.Errorf("they are still being made after %s", diskDriversMost)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
