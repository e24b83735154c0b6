package bench

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"pando/internal/blockdev"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/imagefs"
	"pando/internal/store"
)

// Image is a version of an image, with the files that other systems serve. Each file is made once.
type Image struct {
	Version  fleet.Digest
	Manifest image.Manifest
	Keys     identity.Keys
	Store    *store.Dir
	Scratch  string // directory for the files
	Kernel   *KernelSize

	mapping sync.Once // guards mapped
	mapped  *imagefs.Map
	mapErr  error
}

// RawFile returns the root as a raw file, which is written once.
func (m *Image) RawFile(ctx context.Context) (string, error) {
	file := filepath.Join(m.Scratch, strings.TrimPrefix(string(m.Version), "sha256:")+".img")
	return file, Once(file, func(tmp string) error {
		dev, err := blockdev.Open(
			ctx,
			DiskSource{Dir: m.Store},
			blockdev.Options{Index: m.Manifest.Root.Index, Size: m.Manifest.Root.Size},
		)
		if err != nil {
			return err
		}
		defer dev.Close()
		out, err := os.Create(tmp)
		if err != nil {
			return err
		}
		_, err = io.CopyBuffer(
			out,
			onlyReader{io.NewSectionReader(deviceReader{ctx, dev}, 0, dev.Size())},
			make([]byte, 1<<20),
		)
		return errors.Join(err, out.Close())
	})
}

// deviceReader adapts a device to readers without a context.
type deviceReader struct {
	ctx context.Context
	dev *blockdev.Device
}

func (d deviceReader) ReadAt(p []byte, off int64) (int, error) {
	if err := d.dev.ReadAt(d.ctx, p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}

// onlyReader hides WriterTo, so that io.CopyBuffer uses the caller's buffer.
type onlyReader struct{ io.Reader }

// MakesSquashfs is the program that makes a squashfs.
const MakesSquashfs = "mksquashfs"

// Squashfs returns the root as a squashfs, compressed with zstd at the program's default level.
func (m *Image) Squashfs(ctx context.Context) (string, error) {
	raw, err := m.RawFile(ctx)
	if err != nil {
		return "", err
	}
	file := strings.TrimSuffix(raw, ".img") + ".squashfs"
	return file, Once(file, func(tmp string) error {
		tree, err := m.Tree(ctx)
		if err != nil {
			return err
		}
		return Run(
			ctx,
			"nice",
			MakesSquashfs,
			tree,
			tmp,
			"-comp",
			"zstd",
			"-Xcompression-level",
			"15",
			"-b",
			"128K",
			"-quiet",
			"-no-progress",
		)
	})
}

// Files returns a map of the root: which bytes belong to which file.
func (m *Image) Files(ctx context.Context) (*imagefs.Map, error) {
	m.mapping.Do(func() { m.mapped, m.mapErr = imagefs.ReadMap(ctx, m.Store, m.Manifest) })
	return m.mapped, m.mapErr
}

// Tree returns a directory with the files of the root.
func (m *Image) Tree(ctx context.Context) (string, error) {
	raw, err := m.RawFile(ctx)
	if err != nil {
		return "", err
	}
	dir := strings.TrimSuffix(raw, ".img") + ".tree"
	return dir, Once(
		dir,
		func(tmp string) error { return Run(ctx, "fsck.erofs", "--extract="+tmp, "--preserve", raw) },
	)
}

// Remember reads the raw file of the root, so that it is in the kernel's page cache.
func (m *Image) Remember(ctx context.Context) error {
	raw, err := m.RawFile(ctx)
	if err != nil {
		return err
	}
	f, err := os.Open(raw)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	return err
}
