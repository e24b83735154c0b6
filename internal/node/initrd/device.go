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
	config := blockapi.Config{Index: r.Index, Size: r.Size, ChunkSize: r.ChunkSize,
		Pack: m.pack, Swarm: m.swarm(), Keep: m.assigned().Share, Servers: m.assigned().Servers, Stores: m.assigned().Stores, Network: m.lease.Network(), Device: m.at.device}
	if config.Swarm != nil {
		config.Manifest, config.Signature = m.manifestBytes, m.manifestSignature
	}
	cached := m.useCache(ctx, hardware.Sysfs, &config)
	if config.Late != nil {
		defer config.Late.File.Close() // the daemons have their own
	}
	start := blockapi.Start{Dir: m.at.block, Binary: "/" + rundir.BinaryName, Log: log, Config: config, Cgroup: m.cgroup}
	if m.device, err = start.Start(); err != nil {
		return "", fmt.Errorf("start the block daemon: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := m.device.Ready(ctx); err != nil {
		return "", fmt.Errorf("attach the root device: %w", err)
	}
	if m.at.device > 0 { // the supervisor could not: there was no such device before
		blockapi.ShortenTimeout(m.at.device)
	}
	blockapi.ReadLittleAhead(m.at.device)
	return fmt.Sprintf("%s, %d MB%s", m.at.node(), r.Size/1e6, cached), nil
}

// swarm is how the node shares its boot pack, as it was assigned; nil: not at all.
func (m *machine) swarm() *blockapi.SwarmConfig {
	s := m.assigned().Swarm
	if s == nil {
		return nil
	}
	return bootfiles.SwarmConfig(s, m.sources)
}

// mountRoot mounts the root read-only and puts the overlay over it. Both are unmounted again when something
// fails, so that the next attempt starts clean.
func (m *machine) mountRoot(ctx context.Context) (string, error) {
	for _, d := range []string{m.at.upper, m.at.root} {
		if err := rootdir.MountPoint(d); err != nil {
			return "", err
		}
	}
	if !m.lowered {
		if err := m.mountLower(); err != nil {
			return "", err
		}
	}
	m.lowered = false // the overlay holds it from here on
	as := m.assigned()
	writes, text, err := m.writable().Mount(ctx, as.WriteLayer, as.WriteLimit, as.Version)
	if err != nil {
		return "", err
	}
	m.writes = writes
	return m.manifest.Root.FileSystem + ", writable " + text, nil
}

// mountLower mounts the verified, read-only root by itself.
func (m *machine) mountLower() error {
	if err := rootdir.MountPoint(m.at.lower); err != nil {
		return err
	}
	kind := m.manifest.Root.FileSystem
	if err := unix.Mount(m.at.node(), m.at.lower, kind, unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", kind, m.at.node(), err)
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
func (m *machine) writable() Writable {
	if m.writeLayer == nil {
		m.writeLayer = m.parts.Writable(m.at.lower, m.at.upper, m.at.root, m.findDevice, m.event)
	}
	return m.writeLayer
}
