package boot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/trace"
)

// offlineAfter is how long a machine that was started from its boot medium looks for a network and a server before it boots
// what it has. Its boot loader has looked before, for longer.
const offlineAfter = 20 * time.Second

// Records of the cache in which a node keeps what it needs to boot again without a server: its last boot, and the last
// one with another kernel, because the boot medium is brought in step some time after a boot.
const (
	lastBootRecord   = "boot"
	beforeBootRecord = "boot before"
)

// lastBoot is what a boot was told to run. Nothing of it is believed because it lies on the disk: assignment, manifest and
// map of the boot pack are signed.
type lastBoot struct {
	Assignment        []byte `json:"assignment,omitempty"` // absent: the node may not boot without a server
	Signature         []byte `json:"signature,omitempty"`
	Manifest          []byte `json:"manifest,omitempty"`
	ManifestSignature []byte `json:"manifest_signature,omitempty"`
	Pack              []byte `json:"pack,omitempty"`
	Lease             lease  `json:"lease"`

	assignment fleet.Assignment
	manifest   image.Manifest
}

var errNotAllowed = errors.New("its group does not allow to boot without a server")

// readLastBoot verifies what a record says.
func readLastBoot(record []byte, cfg api.BootConfig, kernel string) (*lastBoot, error) {
	var b lastBoot
	if len(record) == 0 {
		return nil, errors.New("nothing is kept of a boot before")
	}
	if err := json.Unmarshal(record, &b); err != nil {
		return nil, fmt.Errorf("what is kept of the last boot: %w", err)
	}
	if len(b.Assignment) == 0 {
		return nil, errNotAllowed
	}
	var err error
	if b.assignment, err = verifyAssignment(b.Assignment, b.Signature, cfg.ServerKey); err != nil {
		return nil, err
	}
	if !b.assignment.Offline {
		return nil, errNotAllowed
	}
	if got := image.Version(b.Manifest); got != b.assignment.Version {
		return nil, fmt.Errorf("the manifest that is kept has digest %s, assigned was %s", got.Short(), b.assignment.Version.Short())
	}
	trust := image.Trust{Keys: cfg.TrustKeys, Revoked: b.assignment.RevokedKeys}
	if b.manifest, err = trust.Verify(b.Manifest, b.ManifestSignature); err != nil {
		return nil, err
	}
	if b.manifest.Kernel.Release != kernel {
		return nil, fmt.Errorf("the boot medium has kernel %s, and version %s needs %s", kernel, b.assignment.Version.Short(), b.manifest.Kernel.Release)
	}
	return &b, nil
}

// keepBoot keeps this boot for one without a server, or forgets the last one when the group does not allow that. used is the cache disk that is in use; without
// one there may be another that was used once. It comes when the root is attached: a slow disk holds up nothing that streams meanwhile.
func (m *machine) keepBoot(ctx context.Context, used *CacheDisk) {
	if m.isOffline() {
		return
	}
	b := m.thisBoot()
	keep := func(records bootRecords) (string, error) {
		if err := b.keepIn(records); err != nil {
			return err.Error(), nil
		}
		return "", nil
	}
	var why string
	var err error
	if used != nil {
		why, err = within(ctx, used.Name, func() (string, error) { return onRecords(used, keep) })
	} else {
		why, err = withRecords(ctx, m, keep)
	}
	if err == nil && why != "" { // without a cache there is nothing to boot from
		m.event(trace.Event{Stage: trace.Device, Kind: trace.Info, Message: "not kept for a boot without a server: " + why})
	}
}

// thisBoot is what this boot was told to run.
func (m *machine) thisBoot() lastBoot {
	return lastBoot{Assignment: m.answer.Assignment, Signature: m.answer.Signature, Manifest: m.manifestBytes,
		ManifestSignature: m.manifestSignature, Pack: m.pack, Lease: m.lease, assignment: m.assigned(), manifest: m.manifest}
}

func (b lastBoot) keepIn(records bootRecords) error {
	old, err := records.Record(lastBootRecord)
	if err != nil {
		return err
	}
	if !b.assignment.Offline {
		return forgetBoots(records)
	}
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if was := kernelOf(old); was != "" && was != b.manifest.Kernel.Release {
		if err := records.SetRecord(beforeBootRecord, old); err != nil {
			return err
		}
	}
	return records.SetRecord(lastBootRecord, data)
}

// forgetBoots takes back what was kept.
func forgetBoots(records bootRecords) error {
	for _, name := range []string{lastBootRecord, beforeBootRecord} {
		if old, err := records.Record(name); err != nil || len(old) == 0 {
			continue // there never was one, or it cannot be read
		}
		if err := records.SetRecord(name, nil); err != nil {
			return err
		}
	}
	return nil
}

// kernelOf is the kernel that a record is for, "" for none.
func kernelOf(record []byte) string {
	var b lastBoot
	var m image.Manifest
	if len(record) == 0 || json.Unmarshal(record, &b) != nil || json.Unmarshal(b.Manifest, &m) != nil {
		return ""
	}
	return m.Kernel.Release
}

// bootRecords is the part of a cache that holds records.
type bootRecords interface {
	Record(name string) ([]byte, error)
	SetRecord(name string, data []byte) error
}

// offlineBoot is what the machine may boot without a server, nil while it has to go on looking for one. why is told once.
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

// pickLastBoot is the last boot, or the one before if that is what the kernel fits.
func pickLastBoot(records bootRecords, cfg api.BootConfig, kernel string) (*lastBoot, error) {
	var first error
	for _, name := range []string{lastBootRecord, beforeBootRecord} {
		record, err := records.Record(name)
		var b *lastBoot
		if err == nil {
			b, err = readLastBoot(record, cfg, kernel)
		}
		if err == nil {
			return b, nil
		}
		if first == nil {
			first = err
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

// offlineAddress takes the address of the last boot. The agent asks for its lease anew as soon as there is a DHCP server.
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
	return fmt.Sprintf("no server answers; %s in group %s boots %s %s, which it was assigned on %s", a.Node, a.Group, a.Image,
		a.Version.Short(), a.Issued.Format(time.DateTime)), nil
}

// offlineManifest is the manifest of the last boot, and its boot pack.
func (m *machine) offlineManifest(b *lastBoot) string {
	m.manifest, m.pack = b.manifest, nil
	if ref := b.assignment.Pack; ref != nil && len(b.Pack) > 0 {
		if _, err := image.VerifyPack(b.Pack, []byte(ref.Signature), b.assignment.Version, m.packKeys(b.manifest)...); err == nil {
			m.pack = b.Pack
		}
	}
	return fmt.Sprintf("%s, %d MB root, as kept, signature good", b.assignment.Version.Short(), b.manifest.Root.Size/1e6)
}

// isOffline reports whether this boot goes on without a server.
func (m *machine) isOffline() bool { return m.offline != nil && m.channel.session.Load() == nil }
