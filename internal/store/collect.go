package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
)

// Collected is what CollectPacks removed.
type Collected struct {
	Packs   int
	Objects int
	Bytes   int64
}

// CollectPacks removes the maps and pieces of replaced packs that no version and no other pack needs. The caller must
// hold the lock. It removes pieces first, then the map, then the pack's record, so an interrupted run can be
// continued. If the store cannot be read completely, it removes nothing.
func (d *Dir) CollectPacks(
	ctx context.Context,
	over func(fleet.Digest, bootpack.Replaced) bool,
) (c Collected, err error) {
	versions, err := d.Versions()
	if err != nil {
		return c, err
	}
	all, some := map[fleet.Digest]bootpack.Records{}, false
	for _, v := range versions {
		if all[v], err = d.packs(v); err != nil {
			return c, err
		}
		some = some || slices.ContainsFunc(all[v].Replaced, func(r bootpack.Replaced) bool { return over(v, r) })
	}
	if !some {
		return c, nil
	}
	k := &collector{dir: d, needed: map[chunk.ID]bool{}}
	var gone []chunk.ID
	for _, v := range versions {
		gone = append(gone, k.mark(ctx, v, all[v], over)...)
	}
	for _, object := range gone {
		k.remove(ctx, object)
	}
	if k.err == nil {
		k.err = d.disk.SyncFS(d.objects()) // before the record goes
	}
	for _, v := range versions {
		k.forget(v, all[v], gone)
	}
	if k.err != nil {
		return k.Collected, fmt.Errorf("collect boot packs: %w", k.err)
	}
	return k.Collected, nil
}

// collector is one run of CollectPacks. After an error its methods do nothing.
type collector struct {
	dir    *Dir
	needed map[chunk.ID]bool
	err    error
	Collected
}

// mark records what a version and its packs need, and returns the maps of the replaced packs that can be removed.
func (k *collector) mark(
	ctx context.Context,
	v fleet.Digest,
	p bootpack.Records,
	over func(fleet.Digest, bootpack.Replaced) bool,
) (gone []chunk.ID) {
	if k.err == nil {
		k.err = k.version(ctx, v)
	}
	for _, r := range p.Packs {
		k.needPack(ctx, r.Object)
	}
	for _, r := range p.Replaced {
		if over(v, r) {
			gone = append(gone, r.Object)
			continue
		}
		k.needPack(ctx, r.Object)
	}
	return gone
}

// version records the objects of a version.
func (k *collector) version(ctx context.Context, digest fleet.Digest) error {
	return k.dir.Uses(ctx, digest, func(u Use) { k.need(u.ID) })
}

func (k *collector) need(ids ...chunk.ID) {
	for _, id := range ids {
		k.needed[id] = true
	}
}

// needPack records a map and its pieces.
func (k *collector) needPack(ctx context.Context, object chunk.ID) {
	k.need(object)
	for _, e := range k.pieces(ctx, object) {
		k.need(e.ID)
	}
}

// pieces returns the pieces of a map; none if the map is missing or damaged, because no node can use it then.
func (k *collector) pieces(ctx context.Context, object chunk.ID) []chunk.Entry {
	if k.err != nil {
		return nil
	}
	b, err := k.dir.Get(ctx, object)
	var wrong *chunk.WrongBytesError
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.As(err, &wrong) {
			k.err = err
		}
		return nil
	}
	p, err := bootpack.Decode(b)
	if err != nil {
		return nil
	}
	return p.Pieces
}

// remove removes the pieces and the map of a pack, except objects that are needed.
func (k *collector) remove(ctx context.Context, object chunk.ID) {
	for _, e := range k.pieces(ctx, object) {
		k.unlink(ctx, e.ID)
	}
	k.unlink(ctx, object)
	k.Packs++
}

func (k *collector) unlink(ctx context.Context, id chunk.ID) {
	if k.err != nil || k.needed[id] {
		return
	}
	size, ok := k.dir.Stat(id)
	if !ok {
		return
	}
	k.err = k.dir.removeObjects(ctx, id)
	if k.err == nil {
		k.Objects, k.Bytes = k.Objects+1, k.Bytes+size
	}
}

// forget removes packs from the sidecar of a version.
func (k *collector) forget(v fleet.Digest, p bootpack.Records, gone []chunk.ID) {
	left := slices.DeleteFunc(
		slices.Clone(p.Replaced),
		func(r bootpack.Replaced) bool { return slices.Contains(gone, r.Object) },
	)
	if k.err != nil || len(left) == len(p.Replaced) {
		return
	}
	p.Replaced = left
	k.err = k.dir.putPacks(v, p)
}
