package versions

import (
	"errors"
	"fmt"
	"sync"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/hint"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/store"
)

// Cache reads and verifies manifests, and keeps them in memory. A version's manifest never changes.
type Cache struct {
	store *store.Dir
	ring  *identity.Ring

	mu    sync.Mutex
	known map[fleet.Digest]image.Manifest
}

// New returns an empty cache of the manifests in a store.
func New(s *store.Dir, ring *identity.Ring) *Cache { return &Cache{store: s, ring: ring} }

// MaxVersions limits the manifests in memory.
const MaxVersions = 256

// maxK limits kernel and drivers of a version, in bytes. They usually have 20 MB; firmware has at most 3 GB of memory
// to load them to.
const maxK = 512 << 20

// Manifest returns the verified manifest of a version.
func (v *Cache) Manifest(d fleet.Digest) (image.Manifest, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if m, ok := v.known[d]; ok {
		return m, nil
	}
	stored, err := v.store.GetVersion(d)
	if err != nil {
		return image.Manifest{}, hint.With(err, "build or copy the version again, or point the group at another one")
	}
	m, err := v.ring.Trust().Verify(stored.Manifest, stored.Signature)
	if err != nil {
		return image.Manifest{}, hint.With(err, signatureHint(err))
	}
	if v.known == nil || len(v.known) >= MaxVersions {
		v.known = make(map[fleet.Digest]image.Manifest)
	}
	v.known[d] = m
	return m, nil
}

// signatureHint says what can be done about a version without a signature of a trusted key.
func signatureHint(err error) string {
	if errors.Is(err, image.ErrRevoked) {
		return "boot another version (`pando group set GROUP --image IMAGE`), or build this one again, which " +
			"signs it with a key that is trusted"
	}
	return "nodes boot only what a key of this site has signed: build the image here, or trust its key (`pando " +
		"key create NAME --public KEY`)"
}

// Forget drops all manifests, so that they are verified again after a key was revoked.
func (v *Cache) Forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known = nil
}

// Kernel returns the object name of a version's kernel, "" if the manifest cannot be read.
func (v *Cache) Kernel(d fleet.Digest) string {
	m, err := v.Manifest(d)
	if err != nil {
		return ""
	}
	return m.Kernel.Object.Name()
}

// damagedHint says what can be done about damaged objects.
const damagedHint = "`pando store check --repair` finds and repairs all damage; or build or copy the " +
	"version again"

// Whole returns why a version cannot boot, nil if it can. It checks manifest, signature, index (its root only), kernel
// and drivers as they are on the disk now.
func (v *Cache) Whole(d fleet.Digest) error {
	stored, err := v.store.GetVersion(d)
	if err == nil {
		_, err = v.ring.Trust().Verify(stored.Manifest, stored.Signature)
	}
	if err != nil {
		return hint.With(fmt.Errorf("version %s: manifest: %w", d.Short(), err), damagedHint)
	}
	m, err := v.Bootable(d)
	if err != nil {
		return err
	}
	if err := v.store.CheckFile(m.Root.Index); err != nil {
		return hint.With(fmt.Errorf("version %s: index: %w", d.Short(), err), damagedHint)
	}
	return nil
}

// Bootable returns the manifest of a version whose kernel and drivers are in the store and complete.
func (v *Cache) Bootable(d fleet.Digest) (image.Manifest, error) {
	m, err := v.Manifest(d)
	if err != nil {
		return m, err
	}
	if m.Kernel.Object.IsZero() {
		return m, hint.With(
			fmt.Errorf("version %s has no kernel", d.Short()),
			"put a kernel package into the image's recipe and build it again",
		)
	}
	parts := []chunk.ID{m.Kernel.Object}
	for _, p := range m.Drivers {
		parts = append(parts, p.Object)
	}
	var sum int64
	for _, id := range parts {
		size, ok := v.store.Stat(id)
		sum += size
		if !ok {
			return m, hint.With(
				fmt.Errorf("version %s: object %s is not in the store", d.Short(), id),
				"build or copy the version again",
			)
		}
	}
	if sum > maxK {
		return m, hint.With(
			fmt.Errorf(
				"version %s: kernel and drivers have %.1f MB, more than %.1f MB",
				d.Short(),
				float64(sum)/1e6,
				float64(maxK)/1e6,
			),
			"firmware would fail to load them: look what is in the image's kernel package",
		)
	}
	for _, id := range parts {
		if err := v.store.CheckFile(id); err != nil {
			return m, hint.With(fmt.Errorf("version %s: object %s: %w", d.Short(), id, err), damagedHint)
		}
	}
	return m, nil
}
