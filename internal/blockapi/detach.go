package blockapi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/nbd"
	"pando/internal/rundir"
)

// daemonsIn returns the process IDs of daemons with these names whose root directory is dir. It compares device and
// inode: after a switch of roots the path of the directory is different.
func daemonsIn(proc string, dir unix.Stat_t, names ...string) []int {
	entries, _ := os.ReadDir(proc)
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(proc, e.Name(), "cmdline"))
		name, _, _ := strings.Cut(string(line), "\x00")
		if !slices.Contains(names, name) {
			continue
		}
		var root unix.Stat_t
		if unix.Stat(filepath.Join(proc, e.Name(), "root"), &root) == nil && root.Dev == dir.Dev &&
			root.Ino == dir.Ino {
			out = append(out, pid)
		}
	}
	return out
}

// LowerName is the mount point of a staged root, below the directory of its block daemon.
const LowerName = "lower"

// Detach ends the daemons of a root and disconnects its device. It returns EBUSY while the device is mounted.
func Detach(f rundir.FormerRoot) error {
	_ = unix.Unmount(filepath.Join(f.Block, LowerName), 0) // the root may have been staged and never booted
	dev, err := os.OpenFile(DeviceNode(f.Device), os.O_RDONLY|unix.O_EXCL, 0)
	if err != nil {
		return err
	}
	defer dev.Close()
	var dir unix.Stat_t
	if err := unix.Stat(f.Block, &dir); err != nil {
		return err
	}
	// The daemon ends with its device. A running supervisor would replace the daemon.
	for _, pid := range daemonsIn("/proc", dir, SupervisorName) {
		_ = unix.Kill(pid, unix.SIGSTOP) // it may have ended
	}
	if err := (nbd.KernelDevice{Index: f.Device}).Disconnect(); err != nil {
		return err
	}
	if err := endDaemons(dir); err != nil {
		return fmt.Errorf("%s: %w", f.Block, err)
	}
	if f.Block == rundir.Dir {
		return nil // the agent uses this directory too; the socket is a link by now
	}
	return os.RemoveAll(f.Block)
}

// endDaemons kills the daemons whose root directory is dir. Supervisor and daemon restart each other, so it repeats
// until both are gone.
func endDaemons(dir unix.Stat_t) error {
	for range 100 {
		pids := daemonsIn("/proc", dir, SupervisorName, DaemonName)
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.New("the block daemons do not end")
}
