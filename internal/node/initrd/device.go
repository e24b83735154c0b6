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
	"pando/internal/link"
	"pando/internal/rootdir"
	"pando/internal/rundir"
	"pando/internal/trace"
)

// attachDevice starts the daemons behind the root and waits until the kernel has its device.
func (d *rootDevice) attachDevice(ctx context.Context, s *Session, v *Verified, lease link.Lease) (string, error) {
	if d.device != nil {
		d.device.Stop()
		d.device = nil
	}
	log, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	defer log.Close()
	r, as := v.Manifest.Root, &s.Assignment
	config := blockapi.Config{Index: r.Index, Size: r.Size, ChunkSize: r.ChunkSize, Pack: v.Pack,
		Servers: as.Servers, Stores: as.Stores, Network: lease.Network(), Device: d.at.device}
	if as.Swarm != nil { // the group lets nodes share their boot packs
		config.Swarm = bootfiles.SwarmConfig(as.Swarm, v.Sources)
	}
	if config.Swarm != nil {
		config.Manifest, config.Signature = v.Bytes, v.Signature
	}
	d.serveKernel(&config)
	if config.Kernel != nil {
		defer config.Kernel.File.Close() // the daemons have their own copy
	}
	cached := d.useCache(ctx, hardware.Sysfs, s, &config)
	if config.Pending != nil {
		defer config.Pending.File.Close() // the daemons have their own copy
	}
	start := blockapi.Start{
		Dir:    d.at.block,
		Binary: "/" + rundir.BinaryName,
		Log:    log,
		Config: config,
		Cgroup: d.cgroup,
	}
	if d.device, err = start.Start(); err != nil {
		return "", fmt.Errorf("start the block daemon: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := d.device.Ready(ctx); err != nil {
		return "", fmt.Errorf("attach the root device: %w", err)
	}
	if d.at.device > 0 { // the supervisor could not do it: only nbd0 exists before it is attached
		blockapi.ShortenTimeout(d.at.device)
	}
	blockapi.ReadLittleAhead(d.at.device)
	d.tellKernel(config, lease)
	return fmt.Sprintf("%s, %d MB%s", d.at.node(), r.Size/1e6, cached), nil
}

// mountRoot mounts the root read-only and the overlay over it. Each attempt first unmounts what an earlier one left.
func (w *rootMount) mountRoot(ctx context.Context, s *Session, v *Verified) (Root, string, error) {
	for _, d := range []string{w.at.upper, w.at.root} {
		if err := rootdir.MountPoint(d); err != nil {
			return Root{}, "", err
		}
	}
	kind := v.Manifest.Root.FileSystem
	if !w.lowered {
		if err := w.mountLower(kind); err != nil {
			return Root{}, "", err
		}
	}
	w.lowered = false // from here on the overlay holds the lower mount
	as := &s.Assignment
	writes, text, err := w.writable().Mount(ctx, as.WriteLayer, as.WriteLimit, as.Version)
	if err != nil {
		return Root{}, "", err
	}
	return Root{writes}, kind + ", writable " + text, nil
}

// mountLower mounts the verified, read-only root.
func (w *rootMount) mountLower(kind string) error {
	if err := rootdir.MountPoint(w.at.lower); err != nil {
		return err
	}
	if err := unix.Mount(w.at.node(), w.at.lower, kind, unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", kind, w.at.node(), err)
	}
	return nil
}

// Writable makes the root writable: it mounts the write layer, and an overlay of root and write layer.
type Writable interface {
	Mount(ctx context.Context, want, limit string, version fleet.Digest) (used, text string, err error)
}

// Parts are the parts of a boot that other packages implement.
type Parts struct {
	// RunFiles returns the files in /run that adapt the image's programs to Pando. nic is the interface index of the
	// root's adapter. After rebootAfter in emergency mode the node reboots.
	RunFiles func(nic int, rebootAfter time.Duration) []fleet.File
	// Writable returns the Writable for three mount points: the read-only root, the write layer, and the overlay.
	// findDisk waits for drivers of disks, and returns the device that look finds.
	Writable func(
		lower, upper, root string,
		findDisk func(ctx context.Context, look func() string) (string, error),
		tell func(trace.Event),
	) Writable
}

// writable returns the boot's Writable, the same at all attempts.
func (w *rootMount) writable() Writable {
	if w.writeLayer == nil {
		w.writeLayer = w.newWritable()
	}
	return w.writeLayer
}
