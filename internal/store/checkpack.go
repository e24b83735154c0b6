package store

import (
	"context"
	"fmt"
	"slices"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/image/bootpack"
)

// packs checks the boot packs of a version and their pieces. A version with a broken pack is still complete, because
// a node can boot without a pack.
func (c *checker) packs(ctx context.Context, v fleet.Digest, m image.Manifest) error {
	records, err := c.dir.Packs(v)
	if err != nil {
		return c.dropPacks(v, chunk.ID{}, err.Error(), nil)
	}
	wrong, _, err := c.dir.damaged(v, packsSuffix)
	if err != nil {
		return err
	}
	if wrong != nil {
		return c.dropPacks(v, chunk.ID{}, "the list of its boot packs was changed", nil)
	}
	for _, r := range records {
		if err := c.pack(ctx, v, m, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) pack(ctx context.Context, v fleet.Digest, m image.Manifest, r bootpack.Record) error {
	ok, err := c.needQuietly(ctx, v, Use{Part: PartPack, ID: r.Object, Size: -1}, "the map of a boot pack")
	if err != nil {
		return err
	}
	if !ok {
		return c.dropPacks(v, r.Object, "the map of a boot pack is missing or broken", &r)
	}
	b, err := c.dir.Get(ctx, r.Object)
	if err != nil {
		return err
	}
	p, err := c.decodePack(b, v, m, r)
	if err != nil {
		return c.dropPacks(v, r.Object, err.Error(), &r)
	}
	for i, e := range p.Pieces {
		ok, err := c.needQuietly(
			ctx,
			v,
			Use{Part: PartPack, ID: e.ID, Size: int64(e.StoredSize)},
			"a piece of a boot pack",
		)
		if err != nil {
			return err
		}
		if !ok {
			return c.dropPacks(v, e.ID, fmt.Sprintf("piece %d of a boot pack is missing or broken", i), &r)
		}
	}
	return nil
}

// needQuietly is need without a report: an incomplete pack is one problem, not one for each piece.
func (c *checker) needQuietly(ctx context.Context, v fleet.Digest, u Use, what string) (bool, error) {
	before := len(c.report.Problems)
	ok, err := c.need(ctx, v, u, what)
	c.report.Problems = c.report.Problems[:before]
	return ok, err
}

// dropPacks reports a pack or a sidecar that cannot be used. When repairing, it removes it; the server makes it
// again.
func (c *checker) dropPacks(v fleet.Digest, object chunk.ID, what string, broken *bootpack.Record) error {
	file := c.dir.sidecar(v, packsSuffix)
	if !c.Repair {
		c.problem(v, object, "%s; remove the file %s, the server makes the boot pack again", what, file)
		return nil
	}
	c.fixed(v, object, "%s; it was taken out, the server makes it again", what)
	if broken == nil {
		return c.dir.removeFile(file)
	}
	p, err := c.dir.packs(v)
	if err != nil {
		return err
	}
	p.Packs = slices.DeleteFunc(
		p.Packs,
		func(r bootpack.Record) bool { return r.Object == broken.Object && r.Class == broken.Class },
	)
	return c.dir.putPacks(v, p)
}

// decodePack decodes a map. If signatures are checked, it must be signed by a key that may sign packs of this
// version.
func (c *checker) decodePack(b []byte, v fleet.Digest, m image.Manifest, r bootpack.Record) (bootpack.Map, error) {
	switch {
	case len(c.Keys) == 0:
		return bootpack.Decode(b)
	case m.PackKey != "":
		return bootpack.Verify(b, []byte(r.Signature), v, m.PackKey)
	}
	return bootpack.Verify(b, []byte(r.Signature), v, c.Keys...)
}
