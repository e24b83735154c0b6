package initrd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/backoff"
	"pando/internal/blockapi"
	"pando/internal/rundir"
)

// retireEvery is the interval for checking whether a previous root is still in use.
const retireEvery = 2 * time.Second

// Retire detaches previous roots, each once nothing uses it. It returns when none is left or ctx ends.
func (n *NextBoot) Retire(ctx context.Context) {
	left := append(slices.Clone(n.agent.Self().Former), n.orphans()...)
	for len(left) > 0 {
		if backoff.Sleep(ctx, retireEvery) != nil {
			return
		}
		var still []rundir.FormerRoot
		for _, f := range left {
			err := blockapi.Detach(f)
			if errors.Is(err, os.ErrNotExist) {
				continue // it is detached already
			}
			if err != nil {
				still = append(still, f)
				if !errors.Is(err, unix.EBUSY) {
					n.logf("previous root cannot be detached: %v", err)
				}
				continue
			}
			n.logf("previous root detached: /dev/nbd%d", f.Device)
		}
		if len(still) != len(left) && !n.leaving.Load() {
			s := n.agent.Self()
			s.Former = still
			if err := rundir.WriteJSON(n.dir, rundir.SessionName, 0o600, s); err != nil {
				n.logf("%v", err)
			}
		}
		left = still
	}
}

// orphans returns roots that an earlier agent had staged before it ended.
func (n *NextBoot) orphans() []rundir.FormerRoot {
	dirs, _ := filepath.Glob(filepath.Join(n.dir, rootPrefix+"*"))
	var out []rundir.FormerRoot
	for _, dir := range dirs {
		device, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), rootPrefix))
		f := rundir.FormerRoot{Block: dir, Device: device}
		if err == nil && dir != n.agent.Self().Block && !slices.Contains(n.agent.Self().Former, f) {
			out = append(out, f)
		}
	}
	return out
}
