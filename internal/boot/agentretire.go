package boot

import (
	"context"
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
)

// formerRoot is a root that the node has left.
type formerRoot struct {
	Block  string `json:"block"`
	Device int    `json:"device"`
}

// retireEvery is how often is looked whether a root is still used.
const retireEvery = 2 * time.Second

// retire detaches the roots that were left, each when nothing uses it any more.
func (a *agent) retire(ctx context.Context) {
	left := append(slices.Clone(a.session.Former), a.orphans()...)
	for len(left) > 0 {
		if sleep(ctx, retireEvery) != nil {
			return
		}
		var still []formerRoot
		for _, f := range left {
			err := f.detach()
			if errors.Is(err, os.ErrNotExist) {
				continue // it was done before
			}
			if err != nil {
				still = append(still, f)
				if !errors.Is(err, unix.EBUSY) {
					a.logf("detach the root before: %v", err)
				}
				continue
			}
			a.logf("/dev/nbd%d, the root before, is detached", f.Device)
		}
		if len(still) != len(left) && !a.leaving.Load() {
			s := a.self()
			s.Former = still
			if err := writeJSON(a.dir, sessionName, 0o600, s); err != nil {
				a.logf("%v", err)
			}
		}
		left = still
	}
}

// orphans are roots that an agent before this one had staged: it has ended, and nobody knows them.
func (a *agent) orphans() []formerRoot {
	dirs, _ := filepath.Glob(filepath.Join(a.dir, rootPrefix+"*"))
	var out []formerRoot
	for _, dir := range dirs {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), rootPrefix))
		f := formerRoot{dir, n}
		if err == nil && dir != a.session.Block && !slices.Contains(a.session.Former, f) {
			out = append(out, f)
		}
	}
	return out
}

// detach ends the daemons of a root and takes its device away; EBUSY while it is mounted.
func (f formerRoot) detach() error {
	_ = unix.Unmount(filepath.Join(f.Block, lowerName), 0) // of one that was staged and not gone to
	p := places{device: f.Device}
	dev, err := os.OpenFile(p.node(), os.O_RDONLY|unix.O_EXCL, 0)
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
	if f.Block == RunDir {
		return nil // the agent's too; the socket is a link by now
	}
	return os.RemoveAll(f.Block)
}

// endDaemons kills the daemons that live in a directory. Each replaces the other as long as it sees its end, so it
// is done until there are none.
func endDaemons(dir unix.Stat_t) error {
	for range 100 {
		pids := daemonsIn("/proc", dir, SupervisorName, BlockName)
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
