package bench

import (
	"context"

	"pando/internal/chunk"
	"pando/internal/store"
)

// DiskSource is a store's directory as a source of blocks.
type DiskSource struct{ *store.Dir }

// Get reads an object and checks it.
func (d DiskSource) Get(ctx context.Context, r chunk.Request) (chunk.Verified, error) {
	b, err := d.Dir.Get(ctx, r.ID)
	if err != nil {
		return chunk.Verified{}, err
	}
	return chunk.Check(r.ID, b)
}
