package testkit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	erofs "github.com/erofs/go-erofs"

	"pando/internal/blockdev"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/store"
)

// Content is the root file system of an image version, read on this side from the objects of a store: what a node
// must see.
type Content struct {
	Manifest image.Manifest

	files  fs.FS
	device *blockdev.Device
}

// OpenContent opens a version of the store in a data directory. Close it.
func OpenContent(ctx context.Context, data string, version fleet.Digest) (*Content, error) {
	dir, err := store.OpenDir(filepath.Join(data, "store"))
	if err != nil {
		return nil, err
	}
	v, err := dir.GetVersion(version)
	if err != nil {
		return nil, err
	}
	c := &Content{}
	if err := json.Unmarshal(v.Manifest, &c.Manifest); err != nil {
		return nil, fmt.Errorf("manifest of %s: %w", version, err)
	}
	c.device, err = blockdev.Open(ctx, directory{dir}, blockdev.Options{Index: c.Manifest.Root.Index, Size: c.Manifest.Root.Size})
	if err != nil {
		return nil, err
	}
	if c.files, err = erofs.Open(readerAt{c.device}); err != nil {
		c.device.Close()
		return nil, fmt.Errorf("root of %s: %w", version, err)
	}
	return c, nil
}

// Sum is the SHA-256 of a file, as sha256sum prints it.
func (c *Content) Sum(path string) (string, error) {
	b, err := fs.ReadFile(c.files, strings.TrimPrefix(path, "/"))
	if err != nil {
		return "", fmt.Errorf("read %s of the image: %w", path, err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// Close ends the reading.
func (c *Content) Close() { c.device.Close() }

type directory struct{ dir *store.Dir }

func (d directory) Get(ctx context.Context, id chunk.ID, _ int64) (chunk.Verified, error) {
	b, err := d.dir.Get(ctx, id)
	if err != nil {
		return chunk.Verified{}, err
	}
	return chunk.Check(id, b)
}

type readerAt struct{ device *blockdev.Device }

func (r readerAt) ReadAt(p []byte, off int64) (int, error) {
	if err := r.device.ReadAt(context.Background(), p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}
