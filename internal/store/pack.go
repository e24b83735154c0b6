package store

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"pando/internal/fleet"
	"pando/internal/image"
)

const packsSuffix = ".packs.json"

// Packs returns the boot packs of a version, one for each hardware class that has one. A version without packs has none,
// which is no error.
func (d *Dir) Packs(v fleet.Digest) ([]image.PackRecord, error) {
	if _, err := fleet.ParseDigest(string(v)); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(d.sidecar(v, packsSuffix))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read boot packs of %s: %w", v, bare(err))
	}
	records, err := image.DecodePacks(b)
	if err != nil {
		return nil, fmt.Errorf("read boot packs of %s: %w", v, err)
	}
	return records, nil
}

// PutPack makes a boot pack the one of its version and class. Its pieces and its map must be durable and the lock held. What
// a node was told before stays readable: objects are not removed here.
func (d *Dir) PutPack(v fleet.Digest, r image.PackRecord) error {
	records, err := d.Packs(v)
	if err != nil {
		return err
	}
	records = slices.DeleteFunc(records, func(old image.PackRecord) bool { return old.Class == r.Class })
	b, err := image.EncodePacks(append(records, r))
	if err != nil {
		return err
	}
	return WriteFile(d.sidecar(v, packsSuffix), b, 0o644)
}
