package initrd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/control"
	"pando/internal/disk"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
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
func (f *fallback) offlineBoot(ctx context.Context) *lastboot.Boot {
	if f.timeline.config.Medium == "" || f.offline != nil || time.Since(f.timeline.started) < offlineAfter {
		return f.offline
	}
	b, err := f.findLastBoot(ctx)
	if err != nil {
		f.told.Do(func() { f.timeline.console.logf("cannot boot without a server: %v", err) })
		return nil
	}
	f.offline = b
	return b
}

func (f *fallback) findLastBoot(ctx context.Context) (*lastboot.Boot, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return nil, err
	}
	cfg := f.timeline.config
	b, err := withRecords(ctx, f.cacheDisk, func(records lastboot.Records) (*lastboot.Boot, error) {
		return lastboot.Pick(records, cfg, unix.ByteSliceToString(uts.Release[:]))
	})
	if err == nil && f.nicOf(b.Lease.MAC) < 0 {
		err = fmt.Errorf("adapter %s of the last boot is not there", b.Lease.MAC)
	}
	return b, err
}

func (f *fallback) nicOf(mac fleet.MAC) int {
	return slices.IndexFunc(f.drivers.all, func(n link.NIC) bool { return n.MAC == mac })
}

// offlineLink takes the adapter of the last boot, cable or not.
func (f *fallback) offlineLink(ctx context.Context, err error) (string, error) {
	b := f.offlineBoot(ctx)
	if b == nil {
		return "", err
	}
	f.network.nics = []link.NIC{f.drivers.all[f.nicOf(b.Lease.MAC)]}
	return "none; goes on without a network", nil
}

// offlineAddress takes the address of the last boot. The agent asks for its lease anew as soon as there is a DHCP
// server.
func (f *fallback) offlineAddress(ctx context.Context, err error) (string, error) {
	b := f.offlineBoot(ctx)
	if b == nil {
		return "", err
	}
	n := f.drivers.all[f.nicOf(b.Lease.MAC)]
	l := b.Lease
	l.Interface, l.Name, l.Acquired = n.Index, n.Name, rundir.Monotonic()-l.Rebind
	if err := f.network.useLease(l); err != nil {
		return "", err
	}
	return "no DHCP server answers; " + l.Address.String() + " as in the last boot", nil
}

// offlineHello obeys the last assignment when no server answers. What a server says wins.
func (f *fallback) offlineHello(ctx context.Context, err error) (string, error) {
	var r *control.Refused
	b := f.offlineBoot(ctx)
	if b == nil || errors.As(err, &r) {
		return "", err
	}
	a := b.As
	f.timeline.assignment.Store(&a)
	return fmt.Sprintf(
		"no server answers; %s in group %s boots %s %s, which it was assigned on %s",
		a.Node,
		a.Group,
		a.Image,
		a.Version.Short(),
		a.Issued.Format(time.DateTime),
	), nil
}

// offlineManifest is the manifest of the last boot, and its boot pack.
func (f *fallback) offlineManifest(b *lastboot.Boot) string {
	f.version.manifest, f.version.pack = b.Man, nil
	if ref := b.As.Pack; ref != nil && len(b.Pack) > 0 {
		if _, err := bootpack.Verify(b.Pack, []byte(ref.Signature), b.As.Version, f.version.packKeys(b.Man)...); err == nil {
			f.version.pack = b.Pack
		}
	}
	return fmt.Sprintf(
		"%s, %d MB root, as kept, signature good",
		b.As.Version.Short(),
		b.Man.Root.Size/1e6,
	)
}

// isOffline reports whether this boot goes on without a server.
func (f *fallback) isOffline() bool {
	return f.offline != nil && f.timeline.channel.session.Load() == nil
}

// keepBoot keeps this boot for one without a server, or forgets those that are kept when the group does not allow
// that. used is the cache disk that is in use; without one there may be another that was used once. It comes when
// the root is mounted: a slow disk holds up nothing that streams meanwhile.
func (f *fallback) keepBoot(ctx context.Context, used *blockapi.CacheDisk) {
	if f.isOffline() {
		if used != nil && !used.ReadOnly {
			f.kept = &rundir.KeptMark{Device: used.Name, Boot: f.offline.As.Boot}
		}
		return
	}
	b := f.thisBoot()
	device, err := f.keptOn(ctx, used, b)
	switch {
	case errors.Is(err, lastboot.ErrNoRecords): // there is nothing to boot from, which is told where a cache is wanted
	case err != nil:
		f.timeline.event(noBootKept(b.As.Offline, err))
	case b.As.Offline:
		f.kept = &rundir.KeptMark{Device: device, Boot: b.As.Boot}
	}
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
		return lastboot.OnRecords(used, func(records lastboot.Records) (string, error) { return used.Name, b.KeepIn(records) })
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

// thisBoot is what this boot was told to run.
func (f *fallback) thisBoot() lastboot.Boot {
	return lastboot.Boot{Assignment: f.registration.answer.Assignment, Signature: f.registration.answer.Signature, Manifest: f.version.manifestBytes,
		ManifestSignature: f.version.manifestSignature, Pack: f.version.pack, Lease: f.network.lease, As: f.timeline.assigned(), Man: f.version.manifest}
}
