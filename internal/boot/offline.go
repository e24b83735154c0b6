package boot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/image/bootpack"
)

// offlineAfter is how long a machine that was started from its boot medium looks for a network and a server before
// it boots what it has. Its boot loader has looked before, for longer.
const offlineAfter = 20 * time.Second

// lastBoot is what a boot was told to run. Nothing of it is believed because it lies on the disk: assignment,
// manifest and map of the boot pack are signed.
type lastBoot struct {
	Assignment        []byte
	Signature         []byte
	Manifest          []byte
	ManifestSignature []byte
	Pack              []byte // map of the boot pack; none: there was none
	Lease             lease

	assignment fleet.Assignment
	manifest   image.Manifest
}

var (
	errNotAllowed  = errors.New("its group does not allow to boot without a server")
	errNothingKept = errors.New("nothing is kept of a boot before")
)

// verify reads assignment and manifest, if the signatures that they need are good and the kernel is theirs.
func (b *lastBoot) verify(cfg api.BootConfig, kernel string) (err error) {
	if b.assignment, err = verifyAssignment(b.Assignment, b.Signature, cfg.ServerKey); err != nil {
		return err
	}
	if !b.assignment.Offline {
		return errNotAllowed
	}
	if got := image.Version(b.Manifest); got != b.assignment.Version {
		return fmt.Errorf(
			"the manifest that is kept has digest %s, assigned was %s",
			got.Short(),
			b.assignment.Version.Short(),
		)
	}
	trust := image.Trust{Keys: cfg.TrustKeys, Revoked: b.assignment.RevokedKeys}
	if b.manifest, err = trust.Verify(b.Manifest, b.ManifestSignature); err != nil {
		return err
	}
	if b.manifest.Kernel.Release != kernel {
		return fmt.Errorf(
			"the boot medium has kernel %s, and version %s needs %s",
			kernel,
			b.assignment.Version.Short(),
			b.manifest.Kernel.Release,
		)
	}
	return nil
}

// offlineBoot is what the machine may boot without a server, nil while it has to go on looking for one. why is told
// once.
func (m *machine) offlineBoot(ctx context.Context) *lastBoot {
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

func (m *machine) findLastBoot(ctx context.Context) (*lastBoot, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return nil, err
	}
	cfg := m.config
	b, err := withRecords(ctx, m, func(records bootRecords) (*lastBoot, error) {
		return pickLastBoot(records, cfg, unix.ByteSliceToString(uts.Release[:]))
	})
	if err == nil && m.nicOf(b.Lease.MAC) < 0 {
		err = fmt.Errorf("adapter %s of the last boot is not there", b.Lease.MAC)
	}
	return b, err
}

// pickLastBoot is the newest boot with this kernel that came up, or else one that never did: that may be of a
// version that cannot come up, or that the cache has only the beginning of.
func pickLastBoot(records bootRecords, cfg api.BootConfig, kernel string) (*lastBoot, error) {
	kept, err := readKept(records)
	if err == nil && len(kept) == 0 {
		err = errNothingKept
	}
	if err != nil {
		return nil, err
	}
	var first error
	for _, came := range []bool{true, false} {
		for _, k := range kept {
			if k.Booted != came {
				continue
			}
			b, err := k.load(records)
			if err == nil {
				err = b.verify(cfg, kernel)
			}
			if err == nil {
				return b, nil
			}
			if first == nil {
				first = err
			}
		}
	}
	return nil, first
}

func (m *machine) nicOf(mac fleet.MAC) int {
	return slices.IndexFunc(m.all, func(n nic) bool { return n.MAC == mac })
}

// offlineLink takes the adapter of the last boot, cable or not.
func (m *machine) offlineLink(ctx context.Context, err error) (string, error) {
	b := m.offlineBoot(ctx)
	if b == nil {
		return "", err
	}
	m.nics = []nic{m.all[m.nicOf(b.Lease.MAC)]}
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
	l.Interface, l.Name, l.Acquired = n.Index, n.Name, monotonic()-l.Rebind
	if err := m.useLease(l); err != nil {
		return "", err
	}
	return "no DHCP server answers; " + l.Address.String() + " as in the last boot", nil
}

// offlineHello obeys the last assignment when no server answers. What a server says wins.
func (m *machine) offlineHello(ctx context.Context, err error) (string, error) {
	var r *refused
	b := m.offlineBoot(ctx)
	if b == nil || errors.As(err, &r) {
		return "", err
	}
	a := b.assignment
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
func (m *machine) offlineManifest(b *lastBoot) string {
	m.manifest, m.pack = b.manifest, nil
	if ref := b.assignment.Pack; ref != nil && len(b.Pack) > 0 {
		if _, err := bootpack.Verify(b.Pack, []byte(ref.Signature), b.assignment.Version, m.packKeys(b.manifest)...); err == nil {
			m.pack = b.Pack
		}
	}
	return fmt.Sprintf(
		"%s, %d MB root, as kept, signature good",
		b.assignment.Version.Short(),
		b.manifest.Root.Size/1e6,
	)
}

// isOffline reports whether this boot goes on without a server.
func (m *machine) isOffline() bool { return m.offline != nil && m.channel.session.Load() == nil }
