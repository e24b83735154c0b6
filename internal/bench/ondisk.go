package bench

import (
	"context"

	"pando/internal/chunk"
	"pando/internal/store"
)

// DiskSource reads chunks from a store's directory.
type DiskSource struct{ *store.Dir }

// Get reads an object and verifies it.
func (d DiskSource) Get(ctx context.Context, r chunk.Request) (chunk.Verified, error) {
	b, err := d.Dir.Get(ctx, r.ID)
	if err != nil {
		return chunk.Verified{}, err
	}
	return chunk.Check(r.ID, b)
}
