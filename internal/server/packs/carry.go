package packs

import (
	"context"
	"maps"
	"slices"

	"pando/internal/build/packer"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/imagefs"
	"pando/internal/registry"
)

// carry gives a version that was not booted yet the packs of its predecessor, also those of hardware classes. Blocks
// are matched by file path and offset. The pack for all classes is made first, because the others depend on it.
func (p *Maker) carry(ctx context.Context, v fleet.Digest, m image.Manifest) error {
	before, err := p.predecessors(ctx, v)
	if err != nil {
		return err
	}
	for _, from := range before {
		has, err := p.has(ctx, from)
		if err != nil {
			return err
		}
		if _, ok := has[""]; !ok {
			continue
		}
		for _, class := range slices.Sorted(maps.Keys(has)) {
			if err := p.carryFrom(ctx, v, m, from, has[class].Record); err != nil {
				return err
			}
		}
		return p.lookAll(ctx) // the next version may carry over from this one
	}
	return nil
}

func (p *Maker) carryFrom(
	ctx context.Context,
	v fleet.Digest,
	m image.Manifest,
	from fleet.Digest,
	r bootpack.Record,
) error {
	pack, err := p.load(ctx, from, r)
	if err != nil {
		return err
	}
	old, err := p.manifest(from)
	if err != nil {
		return err
	}
	oldMap, err := imagefs.ReadMap(ctx, p.store, old)
	if err != nil {
		return err
	}
	newMap, err := imagefs.ReadMap(ctx, p.store, m)
	if err != nil {
		return err
	}
	order := packer.CarryOver(packer.OrderOf(pack), oldMap, newMap)
	if len(order.Extents) == 0 {
		return nil // the versions have nothing in common
	}
	made, err := packer.Make(
		ctx,
		packer.Options{
			Store:    p.store,
			Keys:     p.ring.Signers(),
			Version:  v,
			Manifest: m,
			Class:    r.Class,
			Order:    order,
			From:     from,
			Before:   &pack,
			Log:      p.log,
			Now:      p.now,
		},
	)
	if err != nil {
		return err
	}
	p.log.Info(
		"boot pack carried over",
		"version",
		v.Short(),
		"class",
		r.Class,
		"from",
		from.Short(),
		"raw",
		made.Raw,
		"of",
		r.Raw,
		"stored",
		made.Stored,
	)
	return nil
}

// predecessors lists the earlier versions of the same image name, the nearest first.
func (p *Maker) predecessors(ctx context.Context, v fleet.Digest) ([]fleet.Digest, error) {
	var all []registry.ImageVersion
	err := p.registry.View(ctx, func(tx *registry.Tx) (err error) {
		all, err = tx.Versions("")
		return err
	})
	var out []fleet.Digest
	for i, known := range all { // ordered by image, then newest first
		if known.Version != v {
			continue
		}
		for _, older := range all[i+1:] {
			if older.Image == known.Image && older.Version != v && !slices.Contains(out, older.Version) {
				out = append(out, older.Version)
			}
		}
	}
	return out, err
}
