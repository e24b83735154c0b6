package packs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"pando/internal/build/packer"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/image/bootpack"
)

// has returns the packs of a version by hardware class. A pack whose map is missing or has no valid signature is left
// out.
func (p *Maker) has(ctx context.Context, v fleet.Digest) (map[string]packNow, error) {
	records, err := p.store.Packs(v)
	if err != nil {
		return nil, err
	}
	out := map[string]packNow{}
	for _, r := range records {
		pack, err := p.load(ctx, v, r)
		if err != nil {
			p.log.Warn("boot pack cannot be used", "version", v, "class", r.Class, "err", err)
			continue
		}
		out[r.Class] = packNow{r, pack, packer.OrderOf(pack)}
	}
	return out, ctx.Err()
}

// load reads and verifies the map of a pack.
func (p *Maker) load(ctx context.Context, v fleet.Digest, r bootpack.Record) (bootpack.Map, error) {
	data, err := p.store.Get(ctx, r.Object)
	if err != nil {
		return bootpack.Map{}, err
	}
	return bootpack.Verify(data, []byte(r.Signature), v, p.ring.Trust().Accepted()...)
}

// measured returns the traces of a version, newest first.
func (p *Maker) measured(ctx context.Context, v fleet.Digest, m image.Manifest) ([]measured, error) {
	kept, err := p.traces.List(v)
	if err != nil || len(kept) == 0 {
		return nil, err
	}
	var recs []packer.Recording
	kept = slices.DeleteFunc(kept, func(k Trace) bool {
		r, err := k.Recording()
		if err == nil {
			recs = append(recs, r)
		}
		return err != nil
	})
	if recs, err = packer.WithoutZeros(ctx, p.store, m, recs); err != nil {
		return nil, fmt.Errorf("read traces of version %s: %w", v.Short(), err)
	}
	out := make([]measured, len(kept))
	for i := range kept {
		out[i] = measured{kept[i], recs[i]}
	}
	return out, nil
}

// ForBoot returns the pack for a boot on hardware of a class, or nil.
func (p *Maker) ForBoot(v fleet.Digest, class string) *fleet.PackRef {
	records, err := p.store.Packs(v)
	if err != nil {
		p.log.Error("boot continues without its pack", "version", v, "err", err)
		return nil
	}
	r, ok := bootpack.Find(records, class)
	if !ok {
		return nil
	}
	if _, ok := p.store.Stat(r.Object); !ok {
		p.log.Warn("boot continues without its pack", "version", v, "err", errors.New("the map is not in the store"))
		return nil
	}
	return &fleet.PackRef{Object: r.Object.String(), Size: r.Size, Signature: r.Signature}
}

// ForExtensions returns the packs of extensions, by version.
func (p *Maker) ForExtensions(list []fleet.Extension) (out map[fleet.Digest]fleet.PackRef) {
	for _, e := range list {
		r := p.ForBoot(e.Version, "")
		if r == nil {
			continue
		}
		if out == nil {
			out = map[fleet.Digest]fleet.PackRef{}
		}
		out[e.Version] = *r
	}
	return out
}
