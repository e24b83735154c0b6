package store

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"pando/internal/fleet"
	"pando/internal/image/bootpack"
)

const packsSuffix = ".packs.json"

// Packs returns the boot packs of a version, at most one for each hardware class. A version without packs is no
// error.
func (d *Dir) Packs(v fleet.Digest) ([]bootpack.Record, error) {
	p, err := d.packs(v)
	return p.Packs, err
}

// packs reads the sidecar with the boot packs of a version.
func (d *Dir) packs(v fleet.Digest) (p bootpack.Records, err error) {
	if _, err := fleet.ParseDigest(string(v)); err != nil {
		return p, err
	}
	b, err := d.readFile(d.sidecar(v, packsSuffix))
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("read boot packs of %s: %w", v, bare(err))
	}
	if p, err = bootpack.DecodeRecords(b); err != nil {
		return p, fmt.Errorf("read boot packs of %s: %w", v, err)
	}
	return p, nil
}

// PutPack makes a boot pack the current one of its version and class. Its pieces and its map must be durable, and the
// lock must be held. Running boots may still read the previous pack, so it is recorded as replaced; see CollectPacks.
func (d *Dir) PutPack(v fleet.Digest, r bootpack.Record) error { return d.ReplacePack(v, r, r.Made) }

// ReplacePack is PutPack with another time of replacement than that in the record: boots were given the previous pack
// until now.
func (d *Dir) ReplacePack(v fleet.Digest, r bootpack.Record, now time.Time) error {
	p, err := d.packs(v)
	if err != nil {
		return err
	}
	p.Packs = slices.DeleteFunc(p.Packs, func(old bootpack.Record) bool {
		if old.Class == r.Class && old.Object != r.Object {
			p.Replaced = append(p.Replaced, bootpack.Replaced{Object: old.Object, Replaced: now})
		}
		return old.Class == r.Class
	})
	p.Packs = append(p.Packs, r)
	return d.putPacks(v, p)
}

// SignPacks replaces the signatures of a version's packs with those that renew returns. The lock must be held.
func (d *Dir) SignPacks(v fleet.Digest, renew func(bootpack.Record) (string, error)) error {
	p, err := d.packs(v)
	if err != nil || len(p.Packs) == 0 {
		return err
	}
	for i, r := range p.Packs {
		if p.Packs[i].Signature, err = renew(r); err != nil {
			return fmt.Errorf("sign boot pack of %s: %w", v, err)
		}
	}
	return d.putPacks(v, p)
}

func (d *Dir) putPacks(v fleet.Digest, p bootpack.Records) error {
	b, err := bootpack.EncodeRecords(p)
	if err != nil {
		return err
	}
	return d.putSidecar(v, packsSuffix, b)
}
