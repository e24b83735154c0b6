package main

import (
	"context"
	"errors"
	"io"
	"os"
	"pando/internal/bench"
	"pando/internal/blockdev"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/imagefs"
	"pando/internal/store"
	"path/filepath"
	"strings"
	"sync"
)

// labImage is a version of an image, with the files that others than Pando serve, which are made once.
type labImage struct {
	version  fleet.Digest
	manifest image.Manifest
	keys     identity.Keys
	store    *store.Dir
	scratch  string // directory for the files
	k        *bench.KernelSize

	mapping sync.Once // of mapped
	mapped  *imagefs.Map
	mapErr  error
}

// rawFile is the root as a file, which is written once.
func (m *labImage) rawFile(ctx context.Context) (string, error) {
	file := filepath.Join(m.scratch, strings.TrimPrefix(string(m.version), "sha256:")+".img")
	return file, bench.Once(file, func(tmp string) error {
		dev, err := blockdev.Open(
			ctx,
			bench.DiskSource{Dir: m.store},
			blockdev.Options{Index: m.manifest.Root.Index, Size: m.manifest.Root.Size},
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

// deviceReader is a device without a context in its calls.
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

// onlyReader hides WriterTo, so that the caller's buffer is used.
type onlyReader struct{ io.Reader }

// makesSquashfs is the program that makes one.
const makesSquashfs = "mksquashfs"

// squashfs is the root as people send it whole: squashfs, zstd at its usual level for that.
func (m *labImage) squashfs(ctx context.Context) (string, error) {
	raw, err := m.rawFile(ctx)
	if err != nil {
		return "", err
	}
	file := strings.TrimSuffix(raw, ".img") + ".squashfs"
	return file, bench.Once(file, func(tmp string) error {
		tree, err := m.tree(ctx)
		if err != nil {
			return err
		}
		return bench.Run(
			ctx,
			"nice",
			makesSquashfs,
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

// files is where each file lies in the root.
func (m *labImage) files(ctx context.Context) (*imagefs.Map, error) {
	m.mapping.Do(func() { m.mapped, m.mapErr = imagefs.ReadMap(ctx, m.store, m.manifest) })
	return m.mapped, m.mapErr
}

// tree is the root as a directory.
func (m *labImage) tree(ctx context.Context) (string, error) {
	raw, err := m.rawFile(ctx)
	if err != nil {
		return "", err
	}
	dir := strings.TrimSuffix(raw, ".img") + ".tree"
	return dir, bench.Once(
		dir,
		func(tmp string) error { return bench.Run(ctx, "fsck.erofs", "--extract="+tmp, "--preserve", raw) },
	)
}

// remember has the kernel read the root as a file.
func (m *labImage) remember(ctx context.Context) error {
	raw, err := m.rawFile(ctx)
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
