package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/mount"
	"pando/internal/store"
)

// baseRoot is the part of a work directory with the root file system of the version that is changed.
const baseRoot = "base.erofs"

// base is a writable copy of a version: its root file system is mounted from a file, what changes goes beside it.
type base struct {
	version  fleet.Digest
	manifest image.Manifest
	root     string // where it is mounted, with its kernel in /boot
	lower    string // where the version is mounted that it is a copy of
	upper    string // what has changed
	mounts   mount.Stack
}

// openBase makes a writable copy of a version in a work directory. What was written to an earlier copy there is in it,
// unless the directory's part "upper" was dropped. Close it.
func openBase(ctx context.Context, w *workDir, d *store.Dir, version fleet.Digest, each func(Progress)) (*base, error) {
	v, err := d.GetVersion(version)
	if err != nil {
		return nil, err
	}
	b := &base{version: version, root: w.file("root"), lower: w.file("lower"), upper: w.file("upper")}
	if b.manifest, err = image.Decode(v.Manifest); err != nil {
		return nil, err
	}
	if err := canRun(b.manifest.Architecture); err != nil {
		return nil, err
	}
	if err := b.writeRoot(ctx, w, d, each); err != nil {
		return nil, err
	}
	if err := b.mount(w); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if err := b.putKernel(ctx, d); err != nil {
		return nil, errors.Join(fmt.Errorf("put the kernel into the tree: %w", err), b.close())
	}
	return b, nil
}

func (b *base) writeRoot(ctx context.Context, w *workDir, d *store.Dir, each func(Progress)) error {
	file, size := w.file(baseRoot), b.manifest.Root.Size
	if s, ok := w.stamped(baseRoot, string(b.version)); ok && fileSize(file) == s.Size {
		return nil
	}
	if err := w.drop(baseRoot); err != nil {
		return err
	}
	if err := roomFor(w.path, b.manifest.Root.Size); err != nil {
		return err
	}
	err := WriteRoot(ctx, d, b.manifest, file, func(done int64) {
		each(Progress{Done: done, Total: size, Unit: "bytes"})
	})
	if err != nil {
		return errors.Join(err, w.drop(baseRoot))
	}
	return w.putStamp(baseRoot, stamp{Of: string(b.version), Made: time.Now(), Size: size})
}

func (b *base) mount(w *workDir) error {
	if err := b.mounts.File(mount.File{Path: w.file(baseRoot), Type: b.manifest.Root.FileSystem}, b.lower); err != nil {
		return err
	}
	return b.mounts.Overlay(b.lower, b.upper, w.file("overlay"), b.root)
}

// putKernel puts the kernel back to where the tree had it: a root file system has none of what was in /boot.
func (b *base) putKernel(ctx context.Context, d *store.Dir) error {
	release := b.manifest.Kernel.Release
	name := "boot/vmlinuz-" + release
	for _, there := range []string{name, "usr/lib/modules/" + release + "/vmlinuz"} {
		if exists(filepath.Join(b.root, there)) {
			return nil
		}
	}
	kernel, err := d.Get(ctx, b.manifest.Kernel.Object)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(b.root)
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
	return root.Chtimes(path.Dir(name), dir.ModTime(), dir.ModTime()) // it is in the image, unlike what is in it
}

// changed tells whether a path of the tree, which is there, was written since the copy was made.
func (b *base) changed(rel string) bool {
	var st unix.Stat_t
	err := unix.Lstat(filepath.Join(b.upper, rel), &st)
	return err == nil
}

func (b *base) close() error { return b.mounts.Close() }
