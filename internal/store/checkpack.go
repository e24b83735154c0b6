package store

import (
	"context"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
)

// packs follows the boot packs of a version to their pieces. A version whose pack is broken is whole: it boots without.
func (c *checker) packs(ctx context.Context, v fleet.Digest, m image.Manifest) error {
	records, err := c.dir.Packs(v)
	if err != nil {
		c.problem(v, chunk.ID{}, "%v; remove the file %s, the server makes the boot pack again", err, c.dir.sidecar(v, packsSuffix))
		return nil
	}
	for _, r := range records {
		if err := c.pack(ctx, v, m, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) pack(ctx context.Context, v fleet.Digest, m image.Manifest, r image.PackRecord) error {
	again := "remove the file " + c.dir.sidecar(v, packsSuffix) + ", the server makes the boot pack again"
	if _, ok := c.sizes[r.Object]; !ok {
		c.problem(v, r.Object, "the map of a boot pack is missing or broken; %s", again)
		return nil
	}
	c.used[r.Object] = true
	b, err := c.dir.Get(ctx, r.Object)
	if err != nil {
		return err
	}
	p, err := c.decodePack(b, v, m, r)
	if err != nil {
		c.problem(v, r.Object, "%v; %s", err, again)
		return nil
	}
	for i, e := range p.Pieces {
		if size, ok := c.sizes[e.ID]; !ok || size != int64(e.StoredSize) {
			c.problem(v, e.ID, "piece %d of a boot pack is missing or broken; %s", i, again)
			continue
		}
		c.used[e.ID] = true
	}
	return nil
}

// decodePack verifies a map with the key that may sign packs of this version, if signatures are looked at.
func (c *checker) decodePack(b []byte, v fleet.Digest, m image.Manifest, r image.PackRecord) (image.Pack, error) {
	switch {
	case len(c.keys) == 0:
		return image.DecodePack(b)
	case m.PackKey != "":
		return image.VerifyPack(b, []byte(r.Signature), v, m.PackKey)
	}
	return image.VerifyPack(b, []byte(r.Signature), v, c.keys...)
}
