package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"pando/internal/build/rootfs"
	"pando/internal/build/source"
	"pando/internal/steps"
	"pando/internal/systree"
	"pando/internal/workdir"
)

// leaveOut removes the extended attributes that belong to the file system on which the tree lies: no image stores
// them, and mkfs.erofs fails at one that it does not know. A directory given by the user is never written, so it is
// copied without them.
func (b *builder) leaveOut(ctx context.Context) (warnings []string, err error) {
	found := b.scan
	if found.Foreign == 0 {
		return nil, nil
	}
	if b.FromDir != "" {
		err = b.copyWithout(ctx)
	} else {
		err = removeForeign(ctx, b.root)
	}
	if err != nil {
		return nil, fmt.Errorf("leave %s out: %w", found.ForeignName, err)
	}
	if b.scan, err = rootfs.ScanTree(ctx, b.root, func(int64) {}); err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("%d attributes of the file system that the tree lies on are left out; the first is %s",
		found.Foreign, found.ForeignName)}, nil
}

// copyWithout copies the directory, and checks that it did not change meanwhile.
func (b *builder) copyWithout(ctx context.Context) error {
	if err := workdir.CheckRoom(b.work.Path, b.scan.Bytes-b.scan.Holes); err != nil {
		return err
	}
	b.Progress(steps.Progress{Step: StepScan, Note: "copying the tree without " + b.scan.ForeignName + " and the like"})
	p := source.Place{Root: b.work.File("tree"), Keep: b.work.File(sourceKeep)}
	for _, dir := range []string{p.Root, p.Keep} {
		if err := errors.Join(workdir.RemoveTree(dir), os.MkdirAll(dir, 0o700)); err != nil {
			return err
		}
	}
	if err := source.CopyDirectory(ctx, b.root, p, func(s source.Progress) {
		b.Progress(steps.Progress{Step: StepScan, Done: s.Done, Total: s.Total, Unit: "bytes"})
	}); err != nil {
		return err
	}
	again, err := rootfs.ScanTree(ctx, b.root, func(int64) {})
	if err != nil {
		return err
	}
	if again.Fingerprint != b.scan.Fingerprint {
		return fmt.Errorf("the tree %s changed while it was copied: stop what writes there", b.root)
	}
	b.root = p.Root
	return workdir.RemoveTree(p.Keep)
}

// removeForeign removes such attributes from a tree that the builder made. For example, Btrfs gives its compression
// property to every file that is made in a directory with it.
func removeForeign(ctx context.Context, tree string) error {
	return filepath.WalkDir(tree, func(path string, _ fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		names, err := systree.Xattrs(path)
		if err != nil {
			return err
		}
		for _, name := range names {
			if systree.ForeignXattr(name) {
				if err := unix.Lremovexattr(path, name); err != nil && !errors.Is(err, unix.ENODATA) {
					return fmt.Errorf("%s of %s: %w", name, path, err)
				}
			}
		}
		return nil
	})
}
