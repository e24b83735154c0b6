package boot

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// rootDevice is the only NBD device that the node has.
const rootDevice = "/dev/nbd0"

// attachDevice starts the daemons behind the root and waits until the kernel has its device.
func (m *machine) attachDevice(ctx context.Context) (string, error) {
	if m.device != nil {
		m.device.Stop()
		m.device = nil
	}
	log, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	defer log.Close()
	r := m.manifest.Root
	config := BlockConfig{Index: r.Index, Size: r.Size, ChunkSize: r.ChunkSize,
		Pack: m.pack, Swarm: m.swarm(), Keep: m.assigned().Share, Servers: m.assigned().Servers, Stores: m.assigned().Stores, Network: m.lease.network()}
	cached := m.useCache(ctx, &config)
	if config.Disk != nil {
		defer config.Disk.File.Close() // the daemons have their own
	}
	start := BlockStart{Dir: RunDir, Binary: "/" + binaryName, Log: log, Config: config}
	if m.device, err = start.Start(); err != nil {
		return "", fmt.Errorf("start the block daemon: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := m.device.Ready(ctx); err != nil {
		return "", fmt.Errorf("attach the root device: %w", err)
	}
	return fmt.Sprintf("%s, %d MB%s", rootDevice, r.Size/1e6, cached), nil
}

// swarm is how the node shares its boot pack, as it was assigned; nil: not at all.
func (m *machine) swarm() *SwarmConfig {
	s := m.assigned().Swarm
	if s == nil {
		return nil
	}
	return &SwarmConfig{Place: s.Place, Near: s.Near}
}

// mountRoot mounts the root read-only and puts the overlay over it. Both are unmounted again when something
// fails, so that the next attempt starts clean.
func (m *machine) mountRoot(context.Context) (string, error) {
	for _, d := range []string{lowerDir, upperDir, newRoot} {
		_ = unix.Unmount(d, unix.MNT_DETACH) // of an attempt before
		if err := os.MkdirAll(d, 0o755); err != nil {
			return "", err
		}
	}
	kind := m.manifest.Root.FileSystem
	if err := unix.Mount(rootDevice, lowerDir, kind, unix.MS_RDONLY, ""); err != nil {
		return "", fmt.Errorf("mount %s on %s: %w", kind, rootDevice, err)
	}
	limit := m.assigned().WriteLimit
	if limit == "" {
		limit = defaultWriteLimit
	}
	if err := mountOverlay(limit); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, writable up to %s in memory", kind, limit), nil
}
