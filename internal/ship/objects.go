package ship

import (
	"context"
	"fmt"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/image/bootpack"
)

// objects lists the objects of a version and its boot packs, each once. It reads indexes and maps from the source
// place.
func objects(ctx context.Context, from Place, v api.StoredVersion) ([]api.ObjectSize, error) {
	m, err := image.Decode(v.Manifest)
	if err != nil {
		return nil, err
	}
	l := &list{seen: map[chunk.ID]bool{}}
	l.add(m.Kernel.Object, m.Kernel.Size)
	for _, d := range m.Drivers {
		l.add(d.Object, d.Size)
	}
	if err := l.root(ctx, from, m.Root); err != nil {
		return nil, fmt.Errorf("index of %s: %w", image.Version(v.Manifest).Short(), err)
	}
	for _, r := range v.Packs {
		if err := l.pack(ctx, from, r); err != nil {
			return nil, fmt.Errorf("boot pack of %s: %w", image.Version(v.Manifest).Short(), err)
		}
	}
	return l.all, nil
}

type list struct {
	all  []api.ObjectSize
	seen map[chunk.ID]bool

	decoder chunk.Decoder
}

func (l *list) add(id chunk.ID, size int64) {
	if !id.IsZero() && !l.seen[id] {
		l.seen[id] = true
		l.all = append(l.all, api.ObjectSize{ID: id, Size: size})
	}
}

func (l *list) root(ctx context.Context, from Place, r image.Root) error {
	b, err := from.Object(ctx, r.Index)
	if err != nil {
		return err
	}
	l.add(r.Index, int64(len(b)))
	root, err := chunk.DecodeRoot(b)
	if err != nil {
		return err
	}
	for i, ref := range root.Pages {
		if b, err = from.Object(ctx, ref.ID); err != nil {
			return err
		}
		l.add(ref.ID, int64(len(b)))
		page, err := root.DecodePage(&l.decoder, i, b)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if e.Codec != chunk.Zero {
				l.add(e.ID, int64(e.StoredSize))
			}
		}
	}
	return nil
}

func (l *list) pack(ctx context.Context, from Place, r bootpack.Record) error {
	b, err := from.Object(ctx, r.Object)
	if err != nil {
		return err
	}
	l.add(r.Object, int64(len(b)))
	p, err := bootpack.Decode(b)
	if err != nil {
		return err
	}
	for _, e := range p.Pieces {
		l.add(e.ID, int64(e.StoredSize))
	}
	return nil
}
