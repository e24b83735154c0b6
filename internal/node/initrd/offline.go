package initrd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pando/internal/blockapi"
	"pando/internal/disk"
	"pando/internal/fleet"
	"pando/internal/lastboot"
	"pando/internal/link"
	"pando/internal/problem"
	"pando/internal/rundir"
	"pando/internal/trace"
)

// offlineAfter is how long a machine that was started from its boot medium looks for a network and a server before
// it boots what it has. Its boot loader has looked before, for longer.
const offlineAfter = 20 * time.Second

// offlineBoot is what the machine may boot without a server, nil while it has to go on looking for one. why is told
// once.
func (f *fallback) offlineBoot(ctx context.Context, adapters []link.NIC) *lastboot.Boot {
	if f.timeline.config.Medium == "" || f.offline != nil || time.Since(f.timeline.started) < offlineAfter {
		return f.offline
	}
	b, err := f.findLastBoot(ctx, adapters)
	if err != nil {
		f.told.Do(func() { f.timeline.console.logf("cannot boot without a server: %v", err) })
		return nil
	}
	f.offline = b
	return b
}

func (f *fallback) findLastBoot(ctx context.Context, adapters []link.NIC) (*lastboot.Boot, error) {
	cfg := f.timeline.config
	b, err := withRecords(ctx, f.cacheDisk, func(records lastboot.Records) (*lastboot.Boot, error) {
		return lastboot.Pick(records, cfg, kernelRelease())
	})
	if err == nil && nicOf(adapters, b.Lease.MAC) < 0 {
		err = fmt.Errorf("adapter %s of the last boot is not there", b.Lease.MAC)
	}
	return b, err
}

// nicOf is the index of the adapter with such a MAC, -1 for none.
func nicOf(adapters []link.NIC, mac fleet.MAC) int {
	return slices.IndexFunc(adapters, func(n link.NIC) bool { return n.MAC == mac })
}

// keepBoot keeps this boot for one without a server, or forgets those that are kept when the group does not allow
// that. used is the cache disk that is in use; without one there may be another that was used once. It comes when
// the root is mounted: a slow disk holds up nothing that streams meanwhile. It returns where the agent notes that this
// boot came up, nil for nowhere.
func (f *fallback) keepBoot(
	ctx context.Context, used *blockapi.CacheDisk, s *Session, v *Verified, lease link.Lease,
) *rundir.KeptMark {
	if s.Offline != nil {
		if used != nil && !used.ReadOnly {
			f.kept = &rundir.KeptMark{Device: used.Name, Boot: s.Offline.As.Boot}
		}
		return f.kept
	}
	b := lastboot.Boot{Assignment: s.Answer.Assignment, Signature: s.Answer.Signature, Manifest: v.Bytes,
		ManifestSignature: v.Signature, Pack: v.Pack, Lease: lease, As: s.Assignment, Man: v.Manifest}
	device, err := f.keptOn(ctx, used, b)
	switch {
	case errors.Is(err, lastboot.ErrNoRecords): // there is nothing to boot from, which is told where a cache is wanted
	case err != nil:
		f.timeline.event(noBootKept(b.As.Offline, err))
	case b.As.Offline:
		f.kept = &rundir.KeptMark{Device: device, Boot: b.As.Boot}
	}
	return f.kept
}

// keptOn keeps a boot on the cache disk that is in use, or on another, and returns which.
func (f *fallback) keptOn(ctx context.Context, used *blockapi.CacheDisk, b lastboot.Boot) (string, error) {
	if used == nil {
		return withRecords(
			ctx,
			f.cacheDisk,
			func(records lastboot.Records) (string, error) {
				return "/dev/" + f.cacheDisk.disks.name, b.KeepIn(records)
			},
		)
	}
	return disk.Within(ctx, used.Name, f.cacheDisk.diskWait, func() (string, error) {
		return lastboot.OnRecords(
			used,
			func(records lastboot.Records) (string, error) { return used.Name, b.KeepIn(records) },
		)
	})
}

// noBootKept says to who looks at the timeline that the disk does not have what the group wants it to have.
func noBootKept(wanted bool, err error) trace.Event {
	message := "not kept for a boot without a server: "
	if !wanted {
		message = "what was kept for boots without a server stays: "
	}
	return trace.Event{Stage: trace.Device, Kind: trace.Info, Message: message + err.Error(),
		Hint: cmp.Or(problem.HintOf(err), "is the disk broken, or read-only? what it had before stays")}
}
