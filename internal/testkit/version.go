package testkit

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"aead.dev/minisign"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/store"
)

// SmallVersion puts a version into a store. Its kernel is the given text, and its root has the given number of chunks
// with random bytes.
func SmallVersion(
	ctx context.Context,
	d *store.Dir,
	key minisign.PrivateKey,
	kernel string,
	chunks int,
) (fleet.Digest, error) {
	root := make([]byte, chunks*chunk.DefaultChunkSize)
	_, _ = rand.Read(root) // never fails
	return PutVersion(ctx, d, key, VersionParts{Kernel: kernel, Root: root})
}

// VersionParts are the parts of a version.
type VersionParts struct {
	Kernel, Drivers string // Drivers "": none
	Root            []byte // whole chunks
}

// PutVersion puts a version into a store.
func PutVersion(ctx context.Context, d *store.Dir, key minisign.PrivateKey, p VersionParts) (fleet.Digest, error) {
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
		Kernel:       image.Kernel{Release: "6.1.0", Size: int64(len(p.Kernel))},
	}
	if m.Kernel.Object, _, err = w.Put(ctx, []byte(p.Kernel)); err != nil {
		return "", err
	}
	if p.Drivers != "" {
		drivers := image.Driver{Name: "base", Size: int64(len(p.Drivers))}
		if drivers.Object, _, err = w.Put(ctx, []byte(p.Drivers)); err != nil {
			return "", err
		}
		m.Drivers = []image.Driver{drivers}
	}
	if m.Root, err = putRoot(ctx, w, p.Root); err != nil {
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

func putRoot(ctx context.Context, w *store.Writer, root []byte) (image.Root, error) {
	enc, err := chunk.NewEncoder(1)
	if err != nil {
		return image.Root{}, err
	}
	var entries []chunk.Entry
	for raw := range slices.Chunk(root, chunk.DefaultChunkSize) {
		stored, codec := enc.Encode(raw)
		e := chunk.Entry{RawSize: len(raw), Codec: codec}
		if codec != chunk.Zero {
			e.StoredSize = len(stored)
			if e.ID, _, err = w.Put(ctx, stored); err != nil {
				return image.Root{}, err
			}
		}
		entries = append(entries, e)
	}
	index, err := chunk.NewIndex(entries, chunk.DefaultChunkSize, enc)
	if err != nil {
		return image.Root{}, err
	}
	out := image.Root{FileSystem: "erofs", Size: int64(len(root)), ChunkSize: chunk.DefaultChunkSize}
	for _, page := range append(index.Pages, index.Root) {
		if out.Index, _, err = w.Put(ctx, page); err != nil { // the last page is the root of the index
			return out, fmt.Errorf("index: %w", err)
		}
	}
	return out, nil
}
