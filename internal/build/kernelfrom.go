package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"pando/internal/build/kernel"
	"pando/internal/build/source"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/imagefs"
	"pando/internal/mount"
	"pando/internal/steps"
	"pando/internal/workdir"
)

// KernelFrom says where a tree gets its kernel and modules from: a version in the store, a directory, or a source.
// Exactly one of the three is set.
type KernelFrom struct {
	Name    string // as given, for people
	Version fleet.Digest
	Tree    string
	Source  Source
}

// key identifies where the kernel comes from, for the stamp of the tree that gets it.
func (k *KernelFrom) key(ctx context.Context, release string) (string, error) {
	switch {
	case k == nil:
		return "", nil
	case k.Version != "":
		return " kernel " + string(k.Version), nil
	case k.Source != nil:
		state, err := k.Source.State(ctx)
		if release != "" {
			state += " release " + release
		}
		return " kernel " + k.Source.Key() + " " + state, err
	}
	found, err := kernel.FindRelease(k.Tree, release)
	if err != nil {
		return "", fmt.Errorf("kernel from %s: %w", k.Name, err)
	}
	info, err := os.Stat(filepath.Join(k.Tree, found.Path))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(" kernel %s %s %d", k.Tree, found.Release, info.ModTime().UnixNano()), nil
}

// giveKernel copies the kernel into a tree that is otherwise complete.
func (b *builder) giveKernel(ctx context.Context, tree string) (err error) {
	k := b.KernelFrom
	if k == nil {
		return nil
	}
	b.Progress(steps.Progress{Step: StepTree, Note: "kernel from " + k.Name})
	defer func() {
		if err != nil {
			err = fmt.Errorf("kernel from %s: %w", k.Name, err)
		}
	}()
	switch {
	case k.Version != "":
		return b.kernelOfVersion(ctx, tree)
	case k.Source != nil:
		return b.kernelOfSource(ctx, tree)
	}
	b.kernel, err = kernel.Copy(ctx, k.Tree, tree, b.Kernel, nil)
	return err
}

// kernelOfSource fills a separate tree from the source and takes only its kernel.
func (b *builder) kernelOfSource(ctx context.Context, tree string) error {
	p := source.Place{Root: b.work.File("kernel.tree"), Keep: b.work.File("kernel.source")}
	for _, dir := range []string{p.Root, p.Keep} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	_, err := b.KernelFrom.Source.Fill(
		ctx,
		p,
		func(s source.Progress) { b.Progress(steps.Progress{Step: StepTree, Note: s.Note}) },
	)
	if err == nil {
		b.kernel, err = kernel.Copy(ctx, p.Root, tree, b.Kernel, nil)
	}
	if err != nil {
		return err
	}
	return errors.Join(workdir.RemoveTree(p.Root), workdir.RemoveTree(p.Keep))
}

// kernelOfVersion takes the modules from a version's root file system, which it mounts, and the kernel from the
// store.
func (b *builder) kernelOfVersion(ctx context.Context, tree string) (err error) {
	v, err := b.Store.GetVersion(b.KernelFrom.Version)
	if err != nil {
		return err
	}
	m, err := image.Decode(v.Manifest)
	if err != nil {
		return err
	}
	if b.Kernel != "" && b.Kernel != m.Kernel.Release {
		return fmt.Errorf("its kernel is %s, and --kernel says %s", m.Kernel.Release, b.Kernel)
	}
	packed, err := b.Store.Get(ctx, m.Kernel.Object)
	if err != nil {
		return err
	}
	file, at := b.work.File("kernel.root"), b.work.File("kernel.mnt")
	if err := workdir.CheckRoom(b.work.Path, m.Root.Size); err != nil {
		return err
	}
	err = imagefs.Extract(ctx, b.Store, m, file, func(done int64) {
		b.Progress(steps.Progress{Step: StepTree, Done: done, Total: m.Root.Size, Unit: "bytes"})
	})
	if err != nil {
		return err
	}
	var mounts mount.Stack
	defer func() { err = errors.Join(err, mounts.Close(), os.Remove(file)) }()
	if err := mounts.File(mount.File{Path: file, Type: m.Root.FileSystem}, at); err != nil {
		return err
	}
	b.kernel, err = kernel.Copy(ctx, at, tree, "", &kernel.Given{Release: m.Kernel.Release, Image: packed})
	return err
}
