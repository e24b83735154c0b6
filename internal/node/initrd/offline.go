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

// offlineAfter is how long a machine that started from its boot medium searches for a network and a server before it
// repeats a kept boot. Its boot loader has searched before, for longer.
const offlineAfter = 20 * time.Second

// offlineBoot returns the boot that the machine may repeat without a server. It returns nil while the machine has to
// search for one, and logs the reason once.
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

// nicOf returns the index of the adapter with this MAC, -1 if there is none.
func nicOf(adapters []link.NIC, mac fleet.MAC) int {
	return slices.IndexFunc(adapters, func(n link.NIC) bool { return n.MAC == mac })
}

// keepBoot stores this boot for a boot without a server, or deletes the kept boots if the group does not allow such
// boots. used is the cache disk in use; nil: search for one that was used once. It runs after the root is mounted, so
// a slow disk delays nothing else. It returns where the agent records that this boot came up, nil for nowhere.
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
	case errors.Is(err, lastboot.ErrNoRecords): // no cache disk; another event reports that if the group wants one
	case err != nil:
		f.timeline.event(noBootKept(b.As.Offline, err))
	case b.As.Offline:
		f.kept = &rundir.KeptMark{Device: device, Boot: b.As.Boot}
	}
	return f.kept
}

// keptOn stores a boot on the cache disk in use, or on another one, and returns the disk's name.
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

// noBootKept returns the event that says that the kept boots could not be changed as the group's setting requires.
func noBootKept(wanted bool, err error) trace.Event {
	message := "not kept for a boot without a server: "
	if !wanted {
		message = "what was kept for boots without a server stays: "
	}
	return trace.Event{Stage: trace.Device, Kind: trace.Info, Message: message + err.Error(),
		Hint: cmp.Or(problem.HintOf(err), "is the disk broken, or read-only? what it had before stays")}
}
