package base

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/command"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/imagefs"
	"pando/internal/mount"
	"pando/internal/steps"
	"pando/internal/store"
	"pando/internal/systree"
	"pando/internal/workdir"
)

// baseRoot is the file of a work directory that holds the root file system of the version that is changed.
const baseRoot = "base.erofs"

// Copy is a writable copy of a version: its root file system is mounted from a file, and an overlay on it takes the
// changes.
type Copy struct {
	version  fleet.Digest
	Manifest image.Manifest
	Root     string // mount point of the copy, with the version's kernel in /boot
	Lower    string // mount point of the unchanged version
	Upper    string // upper layer of the overlay: what has changed
	mounts   mount.Stack
}

// Open makes a writable copy of a version in a work directory. It keeps the changes of an earlier copy there, unless
// the directory's part "upper" was dropped. The caller must call Close.
func Open(
	ctx context.Context,
	w *workdir.Dir,
	d *store.Dir,
	version fleet.Digest,
	each func(steps.Progress),
) (*Copy, error) {
	v, err := d.GetVersion(version)
	if err != nil {
		return nil, err
	}
	b := &Copy{version: version, Root: w.File("root"), Lower: w.File("lower"), Upper: w.File("upper")}
	if b.Manifest, err = image.Decode(v.Manifest); err != nil {
		return nil, err
	}
	if err := command.CanRun(b.Manifest.Architecture); err != nil {
		return nil, err
	}
	if err := b.writeRoot(ctx, w, d, each); err != nil {
		return nil, err
	}
	if err := b.mount(w); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if err := b.putKernel(ctx, d); err != nil {
		return nil, errors.Join(fmt.Errorf("put the kernel into the tree: %w", err), b.Close())
	}
	return b, nil
}

func (b *Copy) writeRoot(ctx context.Context, w *workdir.Dir, d *store.Dir, each func(steps.Progress)) error {
	file, size := w.File(baseRoot), b.Manifest.Root.Size
	if s, ok := w.Stamped(baseRoot, string(b.version)); ok && workdir.FileSize(file) == s.Size {
		return nil
	}
	if err := w.Drop(baseRoot); err != nil {
		return err
	}
	if err := workdir.CheckRoom(w.Path, b.Manifest.Root.Size); err != nil {
		return err
	}
	err := imagefs.Extract(ctx, d, b.Manifest, file, func(done int64) {
		each(steps.Progress{Done: done, Total: size, Unit: "bytes"})
	})
	if err != nil {
		return errors.Join(err, w.Drop(baseRoot))
	}
	return w.PutStamp(baseRoot, workdir.Stamp{Of: string(b.version), Made: time.Now(), Size: size})
}

func (b *Copy) mount(w *workdir.Dir) error {
	if err := b.mounts.File(mount.File{Path: w.File(baseRoot), Type: b.Manifest.Root.FileSystem}, b.Lower); err != nil {
		return err
	}
	return b.mounts.Overlay(b.Lower, b.Upper, w.File("overlay"), b.Root)
}

// putKernel writes the kernel to its path in the tree. The root file system of a version has no files below /boot.
func (b *Copy) putKernel(ctx context.Context, d *store.Dir) error {
	release := b.Manifest.Kernel.Release
	name := "boot/vmlinuz-" + release
	for _, there := range []string{name, "usr/lib/modules/" + release + "/vmlinuz"} {
		if systree.Exists(filepath.Join(b.Root, there)) {
			return nil
		}
	}
	kernel, err := d.Get(ctx, b.Manifest.Kernel.Object)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(b.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	dir, err := root.Stat("boot")
	if err != nil {
		return err
	}
	if err := root.WriteFile(name, kernel, 0o644); err != nil {
		return err
	}
	return root.Chtimes(path.Dir(name), dir.ModTime(), dir.ModTime()) // an image has /boot, but not its content
}

// changed reports whether an existing path of the tree was written since the copy was made.
func (b *Copy) changed(rel string) bool {
	var st unix.Stat_t
	err := unix.Lstat(filepath.Join(b.Upper, rel), &st)
	return err == nil
}

// Close unmounts the copy.
func (b *Copy) Close() error { return b.mounts.Close() }
