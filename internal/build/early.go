package build

import (
	"context"
	"pando/internal/build/initramfs"
	"pando/internal/build/kernel"
	"pando/internal/rawdigest"
)

// earlyDrivers are the drivers while they are packed: that needs the tree alone, and takes processors that wait
// while one of them writes the raw image.
type earlyDrivers struct {
	stop   context.CancelFunc
	done   chan struct{}
	kernel kernel.Kernel
	opt    initramfs.DriverOptions
	packed []initramfs.DriverCPIO
	err    error
}

// beginDrivers packs them beside the steps that follow. What was packed before and is in the store is not packed again.
func (b *builder) beginDrivers(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	d := &earlyDrivers{stop: stop, done: make(chan struct{})}
	b.early = d
	go func() {
		defer close(d.done)
		if d.kernel, d.err = b.kernelOf(); d.err != nil {
			return
		}
		var memory *rawdigest.Cache // to read only: the store is not locked yet
		if memory, d.err = rawdigest.Open(b.Store); d.err != nil {
			return
		}
		d.opt = b.driverOptions(d.kernel)
		d.opt.KeepXZ = b.packedBefore(ctx, d.kernel.Release)
		d.opt.Packed = func(archive []byte) []byte { return memory.Stored(ctx, archive) }
		d.packed, d.err = b.drivers(ctx, d.opt)
	}()
}

// endDrivers waits until nothing reads the tree any more.
func (b *builder) endDrivers() {
	if b.early != nil {
		b.early.stop()
		<-b.early.done
	}
}
