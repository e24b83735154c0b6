package initrd

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/bootfiles"
	"pando/internal/fleet"
	"pando/internal/hardware"
	"pando/internal/rootdir"
	"pando/internal/rundir"
	"pando/internal/trace"
)

// attachDevice starts the daemons behind the root and waits until the kernel has its device.
func (d *rootDevice) attachDevice(ctx context.Context) (string, error) {
	if d.device != nil {
		d.device.Stop()
		d.device = nil
	}
	log, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	defer log.Close()
	r := d.version.manifest.Root
	config := blockapi.Config{Index: r.Index, Size: r.Size, ChunkSize: r.ChunkSize,
		Pack: d.version.pack, Swarm: d.swarm(), Keep: d.timeline.assigned().Share, Servers: d.timeline.assigned().Servers, Stores: d.timeline.assigned().Stores, Network: d.network.lease.Network(), Device: d.at.device}
	if config.Swarm != nil {
		config.Manifest, config.Signature = d.version.manifestBytes, d.version.manifestSignature
	}
	cached := d.cacheDisk.useCache(ctx, hardware.Sysfs, &config)
	if config.Late != nil {
		defer config.Late.File.Close() // the daemons have their own
	}
	start := blockapi.Start{Dir: d.at.block, Binary: "/" + rundir.BinaryName, Log: log, Config: config, Cgroup: d.cgroup}
	if d.device, err = start.Start(); err != nil {
		return "", fmt.Errorf("start the block daemon: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := d.device.Ready(ctx); err != nil {
		return "", fmt.Errorf("attach the root device: %w", err)
	}
	if d.at.device > 0 { // the supervisor could not: there was no such device before
		blockapi.ShortenTimeout(d.at.device)
	}
	blockapi.ReadLittleAhead(d.at.device)
	return fmt.Sprintf("%s, %d MB%s", d.at.node(), r.Size/1e6, cached), nil
}

// swarm is how the node shares its boot pack, as it was assigned; nil: not at all.
func (d *rootDevice) swarm() *blockapi.SwarmConfig {
	s := d.timeline.assigned().Swarm
	if s == nil {
		return nil
	}
	return bootfiles.SwarmConfig(s, d.version.sources)
}

// mountRoot mounts the root read-only and puts the overlay over it. Both are unmounted again when something
// fails, so that the next attempt starts clean.
func (w *rootMount) mountRoot(ctx context.Context) (string, error) {
	for _, d := range []string{w.rootDevice.at.upper, w.rootDevice.at.root} {
		if err := rootdir.MountPoint(d); err != nil {
			return "", err
		}
	}
	if !w.lowered {
		if err := w.mountLower(); err != nil {
			return "", err
		}
	}
	w.lowered = false // the overlay holds it from here on
	as := w.timeline.assigned()
	writes, text, err := w.writable().Mount(ctx, as.WriteLayer, as.WriteLimit, as.Version)
	if err != nil {
		return "", err
	}
	w.writes = writes
	return w.version.manifest.Root.FileSystem + ", writable " + text, nil
}

// mountLower mounts the verified, read-only root by itself.
func (w *rootMount) mountLower() error {
	if err := rootdir.MountPoint(w.rootDevice.at.lower); err != nil {
		return err
	}
	kind := w.version.manifest.Root.FileSystem
	if err := unix.Mount(w.rootDevice.at.node(), w.rootDevice.at.lower, kind, unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", kind, w.rootDevice.at.node(), err)
	}
	return nil
}

// Writable makes the root writable: it mounts what takes the node's writes, and an overlay over both.
type Writable interface {
	Mount(ctx context.Context, want, limit string, version fleet.Digest) (used, text string, err error)
}

// Parts are what a boot needs of other rooms.
type Parts struct {
	// RunFiles are the files in /run that tell the image's programs of Pando; nic is the index of the root's adapter.
	RunFiles func(nic int) []fleet.File
	// Writable is for three mount points: the read-only root, what is written, and the overlay. findDisk returns the
	// device that look finds, and waits for drivers.
	Writable func(
		lower, upper, root string,
		findDisk func(ctx context.Context, look func() string) (string, error),
		tell func(trace.Event),
	) Writable
}

// writable is the same for all attempts of a boot.
func (w *rootMount) writable() Writable {
	if w.writeLayer == nil {
		w.writeLayer = w.parts.Writable(w.rootDevice.at.lower, w.rootDevice.at.upper, w.rootDevice.at.root, w.cacheDisk.findDevice, w.timeline.event)
	}
	return w.writeLayer
}
