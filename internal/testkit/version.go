package testkit

import (
	"context"
	"crypto/rand"
	"fmt"

	"aead.dev/minisign"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/store"
)

// SmallVersion puts a version into a store whose kernel is the given text and whose root has so many chunks of
// random bytes.
func SmallVersion(
	ctx context.Context,
	d *store.Dir,
	key minisign.PrivateKey,
	kernel string,
	chunks int,
) (fleet.Digest, error) {
	unlock, err := d.Lock(ctx, "test")
	if err != nil {
		return "", err
	}
	defer unlock()
	w := d.NewWriter()
	defer w.Close()
	m := image.Manifest{
		Format:       image.Format,
		Architecture: "amd64",
		Kernel:       image.Kernel{Release: "6.1.0", Size: int64(len(kernel))},
	}
	if m.Kernel.Object, _, err = w.Put(ctx, []byte(kernel)); err != nil {
		return "", err
	}
	if m.Root, err = smallRoot(ctx, w, chunks); err != nil {
		return "", err
	}
	if err := w.Sync(ctx); err != nil {
		return "", err
	}
	raw, err := m.Encode()
	if err != nil {
		return "", err
	}
	provenance, err := image.Provenance{Format: image.Format, FromDir: "/test"}.Encode()
	if err != nil {
		return "", err
	}
	return d.PutVersion(store.Version{Manifest: raw, Signature: image.Sign(key, raw), Provenance: provenance})
}

func smallRoot(ctx context.Context, w *store.Writer, chunks int) (image.Root, error) {
	enc, err := chunk.NewEncoder(1)
	if err != nil {
		return image.Root{}, err
	}
	var entries []chunk.Entry
	for range chunks {
		raw := make([]byte, chunk.DefaultChunkSize)
		_, _ = rand.Read(raw) // it never fails
		stored, codec := enc.Encode(raw)
		id, _, err := w.Put(ctx, stored)
		if err != nil {
			return image.Root{}, err
		}
		entries = append(entries, chunk.Entry{RawSize: len(raw), StoredSize: len(stored), Codec: codec, ID: id})
	}
	index, err := chunk.NewIndex(entries, chunk.DefaultChunkSize, enc)
	if err != nil {
		return image.Root{}, err
	}
	root := image.Root{
		FileSystem: "erofs",
		Size:       int64(chunks) * chunk.DefaultChunkSize,
		ChunkSize:  chunk.DefaultChunkSize,
	}
	for _, page := range append(index.Pages, index.Root) {
		if root.Index, _, err = w.Put(ctx, page); err != nil { // the root is the last one
			return root, fmt.Errorf("index: %w", err)
		}
	}
	return root, nil
}
