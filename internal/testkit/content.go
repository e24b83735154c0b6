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

// Content is the root file system of an image version, read from the objects of a store. A node must see the same
// content.
type Content struct {
	Manifest image.Manifest

	files   fs.FS
	device  *blockdev.Device
	fetched *directory
}

// OpenContent opens a version of the store in a data directory. The caller must call Close.
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
	c.fetched = &directory{dir: dir}
	c.device, err = blockdev.Open(ctx, c.fetched, blockdev.Options{
		Index: c.Manifest.Root.Index, Size: c.Manifest.Root.Size, Ahead: -1})
	if err != nil {
		return nil, err
	}
	if c.files, err = erofs.Open(readerAt{c.device}); err != nil {
		c.device.Close()
		return nil, fmt.Errorf("root of %s: %w", version, err)
	}
	return c, nil
}

// Sum returns the SHA-256 of a file, as sha256sum prints it.
func (c *Content) Sum(path string) (string, error) {
	b, err := fs.ReadFile(c.files, strings.TrimPrefix(path, "/"))
	if err != nil {
		return "", fmt.Errorf("read %s of the image: %w", path, err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// Sums returns the SHA-256 of every file below a directory, by path without a leading slash.
func (c *Content) Sums(dir string) (map[string]string, error) {
	out := map[string]string{}
	err := fs.WalkDir(c.files, dir, func(path string, f fs.DirEntry, err error) error {
		if err != nil || !f.Type().IsRegular() {
			return err
		}
		out[path], err = c.Sum(path)
		return err
	})
	return out, err
}

// Close closes the device below the file system.
func (c *Content) Close() { c.device.Close() }

// FirstObject returns the path of the stored object that has the first bytes of a file.
func FirstObject(ctx context.Context, data string, version fleet.Digest, path string) (string, error) {
	c, err := OpenContent(ctx, data, version)
	if err != nil {
		return "", err
	}
	defer c.Close()
	f, err := c.files.Open(strings.TrimPrefix(path, "/"))
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := f.Read(make([]byte, 64)); err != nil {
		return "", fmt.Errorf("read %s of the image: %w", path, err)
	}
	return c.fetched.dir.ObjectPath(c.fetched.last), nil
}

// directory reads objects from a store's directory.
type directory struct {
	dir  *store.Dir
	last chunk.ID
}

func (d *directory) Get(ctx context.Context, r chunk.Request) (chunk.Verified, error) {
	b, err := d.dir.Get(ctx, r.ID)
	if err != nil {
		return chunk.Verified{}, err
	}
	d.last = r.ID
	return chunk.Check(r.ID, b)
}

type readerAt struct{ device *blockdev.Device }

func (r readerAt) ReadAt(p []byte, off int64) (int, error) {
	if err := r.device.ReadAt(context.Background(), p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}
