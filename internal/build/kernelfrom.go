package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"pando/internal/build/source"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/mount"
)

// KernelFrom is where the kernel comes from that a tree shall have, with its modules: a version in the store, a
// directory, or a source. One of the three is set.
type KernelFrom struct {
	Name    string // as given, for people
	Version fleet.Digest
	Tree    string
	Source  Source
}

// key names what the kernel is taken from, for the stamp of the tree that got it.
func (k *KernelFrom) key(ctx context.Context) (string, error) {
	switch {
	case k == nil:
		return "", nil
	case k.Version != "":
		return " kernel " + string(k.Version), nil
	case k.Source != nil:
		state, err := k.Source.State(ctx)
		return " kernel " + k.Source.Key() + " " + state, err
	}
	found, err := KernelOf(k.Tree)
	if err != nil {
		return "", fmt.Errorf("kernel from %s: %w", k.Name, err)
	}
	info, err := os.Stat(filepath.Join(k.Tree, found.Path))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(" kernel %s %s %d", k.Tree, found.Release, info.ModTime().UnixNano()), nil
}

// giveKernel puts the kernel into a tree that is nearly made.
func (b *builder) giveKernel(ctx context.Context, tree string) (err error) {
	k := b.KernelFrom
	if k == nil {
		return nil
	}
	b.Progress(Progress{Step: StepTree, Note: "kernel from " + k.Name})
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
	b.kernel, err = copyKernel(ctx, k.Tree, tree, nil)
	return err
}

// kernelOfSource fills a tree of its own, only for its kernel.
func (b *builder) kernelOfSource(ctx context.Context, tree string) error {
	p := source.Place{Root: b.work.file("kernel.tree"), Keep: b.work.file("kernel.source")}
	for _, dir := range []string{p.Root, p.Keep} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	_, err := b.KernelFrom.Source.Fill(
		ctx,
		p,
		func(s source.Progress) { b.Progress(Progress{Step: StepTree, Note: s.Note}) },
	)
	if err == nil {
		b.kernel, err = copyKernel(ctx, p.Root, tree, nil)
	}
	if err != nil {
		return err
	}
	return errors.Join(removeTree(p.Root), removeTree(p.Keep))
}

// kernelOfVersion takes the modules from a version's root file system, which is mounted for that, and the kernel
// from the store.
func (b *builder) kernelOfVersion(ctx context.Context, tree string) (err error) {
	v, err := b.Store.GetVersion(b.KernelFrom.Version)
	if err != nil {
		return err
	}
	m, err := image.Decode(v.Manifest)
	if err != nil {
		return err
	}
	kernel, err := b.Store.Get(ctx, m.Kernel.Object)
	if err != nil {
		return err
	}
	file, at := b.work.file("kernel.root"), b.work.file("kernel.mnt")
	if err := roomFor(b.work.path, m.Root.Size); err != nil {
		return err
	}
	err = WriteRoot(ctx, b.Store, m, file, func(done int64) {
		b.Progress(Progress{Step: StepTree, Done: done, Total: m.Root.Size, Unit: "bytes"})
	})
	if err != nil {
		return err
	}
	var mounts mount.Stack
	defer func() { err = errors.Join(err, mounts.Close(), os.Remove(file)) }()
	if err := mounts.File(mount.File{Path: file, Type: m.Root.FileSystem}, at); err != nil {
		return err
	}
	b.kernel, err = copyKernel(ctx, at, tree, &givenKernel{m.Kernel.Release, kernel})
	return err
}

// givenKernel is a kernel that is not in the tree that has its modules.
type givenKernel struct {
	release string
	image   []byte
}

// copyKernel copies kernel and modules from one tree to another and returns the release. What leads out of either
// is an error.
func copyKernel(ctx context.Context, from, to string, given *givenKernel) (release string, err error) {
	src, err := os.OpenRoot(from)
	if err != nil {
		return "", err
	}
	defer src.Close()
	dst, err := os.OpenRoot(to)
	if err != nil {
		return "", err
	}
	defer dst.Close()
	if given == nil {
		found, err := KernelOf(from)
		if err != nil {
			return "", err
		}
		data, err := src.ReadFile(found.Path)
		if err != nil {
			return "", err
		}
		given = &givenKernel{found.Release, data}
	}
	modules := path.Join("usr/lib/modules", given.release)
	if !hasModules(src, given.release) {
		return "", fmt.Errorf("it has no modules of its kernel %s", given.release)
	}
	if _, err := src.Stat(modules); err != nil {
		modules = path.Join("lib/modules", given.release)
	}
	target := path.Join("usr/lib/modules", given.release)
	if info, err := dst.Lstat("lib"); err == nil && info.IsDir() { // a tree in which /lib is not /usr/lib
		target = path.Join("lib/modules", given.release)
	}
	restore, err := makeWay(src, modules, dst, path.Dir(target), "boot")
	if err != nil {
		return "", err
	}
	if err := copyTree(ctx, src, modules, dst, target); err != nil {
		return "", fmt.Errorf("copy modules: %w", err)
	}
	name := "boot/vmlinuz-" + given.release
	if err := dst.RemoveAll(name); err != nil {
		return "", err
	}
	if err := dst.WriteFile(name, given.image, 0o600); err != nil {
		return "", err
	}
	return given.release, restore()
}

// makeWay makes directories, and returns what gives them, and those above, their times again: those that they had,
// or that of the modules. The same tree and kernel are then the same version on another day.
func makeWay(src *os.Root, modules string, dst *os.Root, dirs ...string) (restore func() error, err error) {
	like, err := src.Stat(modules)
	if err != nil {
		return nil, err
	}
	times := map[string]time.Time{}
	for _, dir := range dirs {
		for at := dir; ; at = path.Dir(at) {
			times[at] = like.ModTime()
			if info, err := dst.Stat(at); err == nil {
				times[at] = info.ModTime()
			}
			if at == "." {
				break
			}
		}
	}
	for _, at := range slices.Sorted(maps.Keys(times)) { // what is above comes first
		if at == "." {
			continue
		}
		err := dst.Mkdir(at, 0o755)
		if err == nil {
			err = dst.Chmod(at, 0o755)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return func() error {
		for at, t := range times {
			if err := dst.Chtimes(at, t, t); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// copyTree copies directories, files and links with modes and times, in place of what was there. All of it is root's.
func copyTree(ctx context.Context, src *os.Root, from string, dst *os.Root, to string) error {
	if err := dst.RemoveAll(to); err != nil {
		return err
	}
	if err := dst.MkdirAll(to, 0o755); err != nil {
		return err
	}
	entries := readDir(src, from)
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		a, b := path.Join(from, e.Name()), path.Join(to, e.Name())
		var err error
		switch e.Type() {
		case fs.ModeDir:
			err = copyTree(ctx, src, a, dst, b)
		case fs.ModeSymlink:
			var link string
			if link, err = src.Readlink(a); err == nil {
				err = dst.Symlink(link, b)
			}
		case 0:
			err = copyFile(src, a, dst, b)
		}
		if err != nil {
			return err
		}
	}
	return keepTimes(src, from, dst, to)
}

func copyFile(src *os.Root, from string, dst *os.Root, to string) error {
	in, err := src.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := dst.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return keepTimes(src, from, dst, to)
}

// keepTimes gives a copy the mode and time of what it is a copy of.
func keepTimes(src *os.Root, from string, dst *os.Root, to string) error {
	info, err := src.Stat(from)
	if err != nil {
		return err
	}
	if err := dst.Chmod(to, info.Mode().Perm()); err != nil {
		return err
	}
	return dst.Chtimes(to, info.ModTime(), info.ModTime())
}
