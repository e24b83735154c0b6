package boot

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
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
	config := BlockConfig{Index: r.Index, Size: r.Size, ChunkSize: r.ChunkSize,
		Pack: m.pack, Swarm: m.swarm(), Keep: m.assigned().Share, Servers: m.assigned().Servers, Stores: m.assigned().Stores, Network: m.lease.network(), Device: m.at.device}
	if config.Swarm != nil {
		config.Manifest, config.Signature = m.manifestBytes, m.manifestSignature
	}
	cached := m.useCache(ctx, sysfs, &config)
	if config.Late != nil {
		defer config.Late.File.Close() // the daemons have their own
	}
	start := BlockStart{Dir: m.at.block, Binary: "/" + binaryName, Log: log, Config: config, Cgroup: m.cgroup}
	if m.device, err = start.Start(); err != nil {
		return "", fmt.Errorf("start the block daemon: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := m.device.Ready(ctx); err != nil {
		return "", fmt.Errorf("attach the root device: %w", err)
	}
	if m.at.device > 0 { // the supervisor could not: there was no such device before
		_ = os.WriteFile(
			timeoutFile(m.at.device),
			[]byte(fmt.Sprint(requeueAfter.Milliseconds())),
			0,
		) // without it an outage ends later
	}
	readLittleAhead(m.at.device)
	return fmt.Sprintf("%s, %d MB%s", m.at.node(), r.Size/1e6, cached), nil
}

// rootReadAhead is how far the kernel reads ahead of a file that is read, in KiB. Its own 128 are for disks, which
// have to be moved; here each byte has to be sent and unpacked, and the block daemon reads ahead of files that are
// read in order. A server's boot reads 29.9 MB this way, and 36.9 with 128 (docs/adr/0042-little-read-ahead.md).
const rootReadAhead = 32

// readLittleAhead tells the kernel so. It may refuse: the root works the same.
func readLittleAhead(device int) {
	_ = os.WriteFile(
		fmt.Sprintf("/sys/block/nbd%d/queue/read_ahead_kb", device),
		[]byte(strconv.Itoa(rootReadAhead)),
		0,
	)
}

// swarm is how the node shares its boot pack, as it was assigned; nil: not at all.
func (m *machine) swarm() *SwarmConfig {
	s := m.assigned().Swarm
	if s == nil {
		return nil
	}
	return swarmConfig(s, m.sources)
}

// mountRoot mounts the root read-only and puts the overlay over it. Both are unmounted again when something
// fails, so that the next attempt starts clean.
func (m *machine) mountRoot(ctx context.Context) (string, error) {
	for _, d := range []string{m.at.upper, m.at.root} {
		if err := mountPoint(d); err != nil {
			return "", err
		}
	}
	if !m.lowered {
		if err := m.mountLower(); err != nil {
			return "", err
		}
	}
	m.lowered = false // the overlay holds it from here on
	text, err := m.overlay(ctx)
	if err != nil {
		return "", err
	}
	return m.manifest.Root.FileSystem + ", writable " + text, nil
}

// mountLower mounts the verified, read-only root by itself.
func (m *machine) mountLower() error {
	if err := mountPoint(m.at.lower); err != nil {
		return err
	}
	kind := m.manifest.Root.FileSystem
	if err := unix.Mount(m.at.node(), m.at.lower, kind, unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", kind, m.at.node(), err)
	}
	return nil
}

// mountPoint makes a directory to mount on, and takes away what an attempt before has left there.
func mountPoint(dir string) error {
	_ = unix.Unmount(dir, unix.MNT_DETACH) // there was none
	return os.MkdirAll(dir, 0o755)
}
