package boot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// mountUpper mounts at upperDir what takes the node's writes, and says what that is. A layer that cannot be had is a fact on the timeline, and memory
// takes its place: a node without a disk is better than one that does not boot.
func (m *machine) mountUpper(ctx context.Context) (string, error) {
	a := m.assigned()
	limit := a.WriteLimit
	if limit == "" {
		limit = defaultWriteLimit
	}
	var said string
	var err error
	switch {
	case a.WriteLayer == fleet.LayerZram:
		said, err = m.mountZram(limit)
	case a.WriteLayer.OnDisk():
		said, err = m.mountDiskLayer(ctx, a.WriteLayer == fleet.LayerKeep)
	default:
		return "writable up to " + limit + " in memory", mountTmpfs(limit)
	}
	if err == nil {
		return said, nil
	}
	m.event(trace.Event{Stage: trace.Root, Kind: trace.Info, Message: fmt.Sprintf("no write layer on %s: %v", a.WriteLayer, err),
		Hint: "memory takes the writes of this boot; docs/write-layer.md says what each layer wants"})
	return "writable up to " + limit + " in memory", mountTmpfs(limit)
}

func mountTmpfs(limit string) error {
	if err := unix.Mount("tmpfs", upperDir, "tmpfs", unix.MS_NOATIME, "mode=0755,size="+limit); err != nil {
		return fmt.Errorf("mount tmpfs of %s for the node's writes: %w", limit, err)
	}
	return nil
}

// mountZram mounts a file system on compressed memory. It tells the memory what was deleted, which is then free.
func (m *machine) mountZram(limit string) (string, error) {
	if err := m.loadLayer("zram"); err != nil {
		return "", err
	}
	const dir = "/sys/block/zram0/"
	size := limitBytes(limit, totalMemory())
	if err := os.WriteFile(dir+"disksize", []byte(strconv.FormatInt(size, 10)), 0o644); err != nil {
		if _, e := os.Stat("/dev/zram0"); e != nil {
			return "", errors.New("the kernel has no zram")
		}
		_ = os.WriteFile(dir+"reset", []byte("1"), 0o644) // of an attempt before
		if err := os.WriteFile(dir+"disksize", []byte(strconv.FormatInt(size, 10)), 0o644); err != nil {
			return "", err
		}
	}
	if err := makeLayer("/dev/zram0", "^has_journal"); err != nil {
		return "", err
	}
	return fmt.Sprintf("writable up to %s in compressed memory", limit), mountLayer("/dev/zram0", "discard")
}

// mountDiskLayer mounts the partition that a person has called LayerPartition. Kept, it has a directory for each version, and only that of the
// version that boots now stays: changes mean nothing over another root.
func (m *machine) mountDiskLayer(ctx context.Context, keep bool) (string, error) {
	if err := m.loadLayer(); err != nil {
		return "", err
	}
	loader, err := m.allDrivers()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, diskFor)
	defer cancel()
	name, err := look(ctx, loader, func(names []string) string {
		for _, n := range names {
			if partitionName(sysfs, n) == fleet.LayerPartition {
				return n
			}
		}
		return ""
	})
	if name == "" {
		return "", errors.Join(errors.New("no partition is called "+fleet.LayerPartition), err)
	}
	device := "/dev/" + name
	if keep && mountLayer(device, "discard") == nil {
		return "written to " + device + ", kept", m.forgetOthers()
	}
	if err := makeLayer(device, "metadata_csum"); err != nil {
		return "", err
	}
	return "written to " + device, mountLayer(device, "discard")
}

// layerDir is where the overlay's directories are on the write layer.
func (m *machine) layerDir() string {
	if a := m.assigned(); a.WriteLayer == fleet.LayerKeep {
		return filepath.Join(upperDir, strings.TrimPrefix(string(a.Version), "sha256:")[:16])
	}
	return upperDir
}

// forgetOthers removes what was written over other versions.
func (m *machine) forgetOthers() error {
	entries, err := os.ReadDir(upperDir)
	for _, e := range entries {
		if e.Name() != filepath.Base(m.layerDir()) && e.Name() != "lost+found" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(upperDir, e.Name())))
		}
	}
	return err
}

// allDrivers loads from everything that the server sent.
func (m *machine) allDrivers() (*moduleLoader, error) {
	index, err := readDriverSets(driverSets, "")
	if err != nil {
		return nil, err
	}
	loader := newModuleLoader(index, m.cmd)
	maps.Copy(loader.loaded, m.modules.loaded)
	return loader, nil
}

// loadLayer loads ext4 and what else a layer needs. What the kernel has built in is in no set, and loads nothing.
func (m *machine) loadLayer(more ...string) error {
	loader, err := m.allDrivers()
	if err != nil {
		return err
	}
	return loader.load(append(more, "crc32c_generic", "ext4"))
}

// makeLayer makes an empty file system, with the image's own program.
func makeLayer(device, features string) error {
	if err := unix.Mount("/dev", lowerDir+"/dev", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("give the image's mkfs.ext4 its devices: %w", err)
	}
	defer func() { _ = unix.Unmount(lowerDir+"/dev", unix.MNT_DETACH) }()
	c := exec.Command("/sbin/mkfs.ext4", "-q", "-F", "-m", "0", "-O", features, "-E", "lazy_itable_init=1,lazy_journal_init=1", device)
	c.SysProcAttr, c.Dir, c.Env = &syscall.SysProcAttr{Chroot: lowerDir}, "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	out, err := c.CombinedOutput()
	if errors.Is(err, os.ErrNotExist) {
		return errors.New("the image has no mkfs.ext4: install e2fsprogs in it")
	}
	if err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	return nil
}

func mountLayer(device, options string) error {
	if err := unix.Mount(device, upperDir, "ext4", unix.MS_NOATIME, options); err != nil {
		return fmt.Errorf("mount %s: %w", device, err)
	}
	return nil
}

// totalMemory is the machine's, in bytes.
func totalMemory() int64 {
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) != nil {
		return 0
	}
	return int64(i.Totalram) * int64(i.Unit)
}

// limitBytes is a write limit, "50%" of all memory or "2g", in whole blocks.
func limitBytes(limit string, all int64) int64 {
	if share, ok := strings.CutSuffix(limit, "%"); ok {
		n, _ := strconv.ParseInt(share, 10, 64) // the server has checked it
		return all * n / 100 &^ 4095
	}
	shift := map[byte]uint{'k': 10, 'm': 20, 'g': 30}[limit[len(limit)-1]|0x20]
	n, _ := strconv.ParseInt(strings.TrimRight(limit, "kKmMgG"), 10, 64)
	return n << shift &^ 4095
}
