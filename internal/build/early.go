package build

import (
	"context"
	"pando/internal/build/initramfs"
	"pando/internal/build/kernel"
	"pando/internal/rawdigest"
)

// earlyDrivers is the packing of drivers in the background. It reads only the tree, and uses processors that are idle
// while mkfs.erofs writes the raw image with one.
type earlyDrivers struct {
	stop   context.CancelFunc
	done   chan struct{}
	kernel kernel.Kernel
	opt    initramfs.DriverOptions
	packed []initramfs.DriverCPIO
	err    error
}

// beginDrivers packs the drivers in a goroutine while the next steps run. Archives that the store already has are not
// compressed again.
func (b *builder) beginDrivers(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	d := &earlyDrivers{stop: stop, done: make(chan struct{})}
	b.early = d
	go func() {
		defer close(d.done)
		if d.kernel, d.err = b.kernelOf(); d.err != nil {
			return
		}
		var memory *rawdigest.Cache // read only: the store is not locked yet
		if memory, d.err = rawdigest.Open(b.Store); d.err != nil {
			return
		}
		d.opt = b.driverOptions(d.kernel)
		d.opt.KeepXZ = b.packedBefore(ctx, d.kernel.Release)
		d.opt.Packed = func(archive []byte) []byte { return memory.Stored(ctx, archive) }
		d.packed, d.err = b.drivers(ctx, d.opt)
	}()
}

// endDrivers stops the packing and waits until it no longer reads the tree.
func (b *builder) endDrivers() {
	if b.early != nil {
		b.early.stop()
		<-b.early.done
	}
}
