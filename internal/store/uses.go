package store

import (
	"context"
	"fmt"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
)

// Part says what an object is for a version.
type Part string

// The parts of a version, in the order in which Uses reports them.
const (
	PartKernel  Part = "kernel"
	PartDrivers Part = "drivers"
	PartIndex   Part = "index" // the index root and its pages
	PartChunk   Part = "chunk" // of the root file system
	PartPack    Part = "pack"  // map and pieces of a boot pack
)

// Use is one object that a version names.
type Use struct {
	Part  Part
	ID    chunk.ID
	Size  int64 // bytes of the object; -1: unknown
	Start int64 // of a chunk: offset of its raw bytes in the root
	Raw   int64 // of a chunk: number of its raw bytes
}

// Uses calls each for every object that a version names; an object may occur several times. It does not include boot
// packs, see PackUses. The error is fs.ErrNotExist if the manifest or a part of the index is missing.
func (d *Dir) Uses(ctx context.Context, digest fleet.Digest, each func(Use)) error {
	v, err := d.GetVersion(digest)
	if err != nil && v.Manifest == nil {
		return err
	}
	m, err := image.Decode(v.Manifest)
	if err != nil {
		return fmt.Errorf("read version %s: %w", digest, err)
	}
	return d.UsesOf(ctx, m, each)
}

// UsesOf is Uses for a decoded manifest.
func (d *Dir) UsesOf(ctx context.Context, m image.Manifest, each func(Use)) error {
	if !m.IsExtension() {
		each(Use{Part: PartKernel, ID: m.Kernel.Object, Size: m.Kernel.Size})
	}
	for _, x := range m.Drivers {
		each(Use{Part: PartDrivers, ID: x.Object, Size: x.Size})
	}
	each(Use{Part: PartIndex, ID: m.Root.Index, Size: -1})
	b, err := d.Get(ctx, m.Root.Index)
	if err != nil {
		return err
	}
	root, err := chunk.DecodeRoot(b)
	if err != nil {
		return err
	}
	start := int64(0)
	for i, ref := range root.Pages {
		each(Use{Part: PartIndex, ID: ref.ID, Size: int64(ref.StoredSize)})
		if b, err = d.Get(ctx, ref.ID); err != nil {
			return err
		}
		page, err := root.DecodePage(&d.decoder, i, b)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if e.Codec != chunk.Zero {
				each(Use{PartChunk, e.ID, int64(e.StoredSize), start, int64(e.RawSize)})
			}
			start += int64(e.RawSize)
		}
	}
	return nil
}

// PackUses calls each for the maps and pieces of a version's boot packs, including replaced ones. It skips the pieces
// of a map that is missing or damaged: no node can use them.
func (d *Dir) PackUses(ctx context.Context, v fleet.Digest, each func(id chunk.ID)) error {
	p, err := d.packs(v)
	if err != nil {
		return err
	}
	k := &collector{dir: d}
	tell := func(object chunk.ID) {
		each(object)
		for _, e := range k.pieces(ctx, object) {
			each(e.ID)
		}
	}
	for _, r := range p.Packs {
		tell(r.Object)
	}
	for _, r := range p.Replaced {
		tell(r.Object)
	}
	return k.err
}
