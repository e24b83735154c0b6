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

// daemonsIn are the processes of block daemons of these names whose root is a directory. A path would not do: the
// mount that they see it on is not the one that is seen after the switch to another root.
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

// LowerName is the directory below that of the block daemon where a root is mounted that is staged.
const LowerName = "lower"

// Detach ends the daemons of a root and takes its device away; EBUSY while it is mounted.
func Detach(f rundir.FormerRoot) error {
	_ = unix.Unmount(filepath.Join(f.Block, LowerName), 0) // of one that was staged and not gone to
	dev, err := os.OpenFile(DeviceNode(f.Device), os.O_RDONLY|unix.O_EXCL, 0)
	if err != nil {
		return err
	}
	defer dev.Close()
	var dir unix.Stat_t
	if err := unix.Stat(f.Block, &dir); err != nil {
		return err
	}
	// A supervisor would replace the daemon, which ends with its device.
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
		return nil // the agent's too; the socket is a link by now
	}
	return os.RemoveAll(f.Block)
}

// endDaemons kills the daemons that live in a directory. Each replaces the other as long as it sees its end, so it
// is done until there are none.
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
