package packer

import (
	"context"

	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/imagefs"
	"pando/internal/store"
)

// ChunkBytes returns the stored bytes of all chunks that have a block of an order: what a boot fetches without a pack.
func ChunkBytes(ctx context.Context, d *store.Dir, m image.Manifest, order Order) (int64, error) {
	root, err := imagefs.Open(ctx, d, m)
	if err != nil {
		return 0, err
	}
	seen, sum := map[chunk.ID]bool{}, int64(0)
	for _, x := range order.Extents {
		for at, end := int64(x.Start)*chunk.BlockSize, min(int64(x.End())*chunk.BlockSize, root.Size()); at < end; {
			e, start, err := root.Entry(at)
			if err != nil {
				return 0, err
			}
			if e.Codec != chunk.Zero && !seen[e.ID] {
				seen[e.ID] = true
				sum += int64(e.StoredSize)
			}
			at = start + int64(e.RawSize)
		}
	}
	return sum, nil
}
