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
func (m *machine) offlineBoot(ctx context.Context) *lastboot.Boot {
	if m.config.Medium == "" || m.offline != nil || time.Since(m.started) < offlineAfter {
		return m.offline
	}
	b, err := m.findLastBoot(ctx)
	if err != nil {
		m.told.Do(func() { m.console.logf("cannot boot without a server: %v", err) })
		return nil
	}
	m.offline = b
	return b
}

func (m *machine) findLastBoot(ctx context.Context) (*lastboot.Boot, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return nil, err
	}
	cfg := m.config
	b, err := withRecords(ctx, m, func(records lastboot.Records) (*lastboot.Boot, error) {
		return lastboot.Pick(records, cfg, unix.ByteSliceToString(uts.Release[:]))
	})
	if err == nil && m.nicOf(b.Lease.MAC) < 0 {
		err = fmt.Errorf("adapter %s of the last boot is not there", b.Lease.MAC)
	}
	return b, err
}

func (m *machine) nicOf(mac fleet.MAC) int {
	return slices.IndexFunc(m.all, func(n link.NIC) bool { return n.MAC == mac })
}

// offlineLink takes the adapter of the last boot, cable or not.
func (m *machine) offlineLink(ctx context.Context, err error) (string, error) {
	b := m.offlineBoot(ctx)
	if b == nil {
		return "", err
	}
	m.nics = []link.NIC{m.all[m.nicOf(b.Lease.MAC)]}
	return "none; goes on without a network", nil
}

// offlineAddress takes the address of the last boot. The agent asks for its lease anew as soon as there is a DHCP
// server.
func (m *machine) offlineAddress(ctx context.Context, err error) (string, error) {
	b := m.offlineBoot(ctx)
	if b == nil {
		return "", err
	}
	n := m.all[m.nicOf(b.Lease.MAC)]
	l := b.Lease
	l.Interface, l.Name, l.Acquired = n.Index, n.Name, rundir.Monotonic()-l.Rebind
	if err := m.useLease(l); err != nil {
		return "", err
	}
	return "no DHCP server answers; " + l.Address.String() + " as in the last boot", nil
}

// offlineHello obeys the last assignment when no server answers. What a server says wins.
func (m *machine) offlineHello(ctx context.Context, err error) (string, error) {
	var r *control.Refused
	b := m.offlineBoot(ctx)
	if b == nil || errors.As(err, &r) {
		return "", err
	}
	a := b.As
	m.assignment.Store(&a)
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
func (m *machine) offlineManifest(b *lastboot.Boot) string {
	m.manifest, m.pack = b.Man, nil
	if ref := b.As.Pack; ref != nil && len(b.Pack) > 0 {
		if _, err := bootpack.Verify(b.Pack, []byte(ref.Signature), b.As.Version, m.packKeys(b.Man)...); err == nil {
			m.pack = b.Pack
		}
	}
	return fmt.Sprintf(
		"%s, %d MB root, as kept, signature good",
		b.As.Version.Short(),
		b.Man.Root.Size/1e6,
	)
}

// isOffline reports whether this boot goes on without a server.
func (m *machine) isOffline() bool { return m.offline != nil && m.channel.session.Load() == nil }

// keepBoot keeps this boot for one without a server, or forgets those that are kept when the group does not allow
// that. used is the cache disk that is in use; without one there may be another that was used once. It comes when
// the root is mounted: a slow disk holds up nothing that streams meanwhile.
func (m *machine) keepBoot(ctx context.Context, used *blockapi.CacheDisk) {
	if m.isOffline() {
		if used != nil && !used.ReadOnly {
			m.kept = &rundir.KeptMark{Device: used.Name, Boot: m.offline.As.Boot}
		}
		return
	}
	b := m.thisBoot()
	device, err := m.keptOn(ctx, used, b)
	switch {
	case errors.Is(err, lastboot.ErrNoRecords): // there is nothing to boot from, which is told where a cache is wanted
	case err != nil:
		m.event(noBootKept(b.As.Offline, err))
	case b.As.Offline:
		m.kept = &rundir.KeptMark{Device: device, Boot: b.As.Boot}
	}
}

// keptOn keeps a boot on the cache disk that is in use, or on another, and returns which.
func (m *machine) keptOn(ctx context.Context, used *blockapi.CacheDisk, b lastboot.Boot) (string, error) {
	if used == nil {
		return withRecords(
			ctx,
			m,
			func(records lastboot.Records) (string, error) { return "/dev/" + m.disks.name, b.KeepIn(records) },
		)
	}
	return disk.Within(ctx, used.Name, m.diskWait, func() (string, error) {
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
func (m *machine) thisBoot() lastboot.Boot {
	return lastboot.Boot{Assignment: m.answer.Assignment, Signature: m.answer.Signature, Manifest: m.manifestBytes,
		ManifestSignature: m.manifestSignature, Pack: m.pack, Lease: m.lease, As: m.assigned(), Man: m.manifest}
}
