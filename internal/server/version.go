package server

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/store"
)

// versions reads manifests that a key of this site signed, and remembers them: they never change.
type versions struct {
	store *store.Dir
	ring  *identity.Ring

	mu    sync.Mutex
	known map[fleet.Digest]image.Manifest
}

// maxVersions bounds the manifests in memory.
const maxVersions = 256

// maxK bounds what a node has to load before its /init: usual are 20 MB, and firmware has no more than 3 GB to put it.
const maxK = 512 << 20

// bootError is a reason why a node cannot boot, with what an operator can do about it.
type bootError struct {
	err  error
	hint string
}

func (e *bootError) Error() string { return e.err.Error() }
func (e *bootError) Unwrap() error { return e.err }

// manifest returns the verified manifest of a version.
func (v *versions) manifest(d fleet.Digest) (image.Manifest, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if m, ok := v.known[d]; ok {
		return m, nil
	}
	stored, err := v.store.GetVersion(d)
	if err != nil {
		return image.Manifest{}, &bootError{err, "build or copy the version again, or point the group at another one"}
	}
	m, err := v.ring.Trust().Verify(stored.Manifest, stored.Signature)
	if err != nil {
		return image.Manifest{}, &bootError{err, signatureHint(err)}
	}
	if v.known == nil || len(v.known) >= maxVersions {
		v.known = make(map[fleet.Digest]image.Manifest)
	}
	v.known[d] = m
	return m, nil
}

// signatureHint is what can be done about a version that is not signed by a key that is trusted.
func signatureHint(err error) string {
	if errors.Is(err, image.ErrRevoked) {
		return "boot another version (`pando group set GROUP --image IMAGE`), or build this one again, which " +
			"signs it with a key that is trusted"
	}
	return "nodes boot only what a key of this site has signed: build the image here, or trust its key (`pando " +
		"key create NAME --public KEY`)"
}

// forget makes every manifest be verified again: a key was revoked.
func (v *versions) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known = nil
}

// kernel returns the object name of a version's kernel, "" when it cannot be told.
func (v *versions) kernel(d fleet.Digest) string {
	m, err := v.manifest(d)
	if err != nil {
		return ""
	}
	return m.Kernel.Object.Name()
}

// bootable returns the manifest of a version whose kernel and drivers are in the store.
func (v *versions) bootable(d fleet.Digest) (image.Manifest, error) {
	m, err := v.manifest(d)
	if err != nil {
		return m, err
	}
	if m.Kernel.Object.IsZero() {
		return m, &bootError{
			fmt.Errorf("version %s has no kernel", d.Short()),
			"put a kernel package into the image's recipe and build it again",
		}
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
			return m, &bootError{
				fmt.Errorf("version %s: object %s is not in the store", d.Short(), id),
				"build or copy the version again",
			}
		}
	}
	if sum > maxK {
		return m, &bootError{
			fmt.Errorf(
				"version %s: kernel and drivers have %s, more than %s",
				d.Short(),
				bytesText(sum),
				bytesText(maxK),
			),
			"firmware would fail to load them: look what is in the image's kernel package",
		}
	}
	return m, nil
}

// hint is what can be done about an error, "" if nothing is known.
func hint(err error) string {
	var b *bootError
	if errors.As(err, &b) {
		return b.hint
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "look at the store with `pando doctor`"
	}
	return ""
}
