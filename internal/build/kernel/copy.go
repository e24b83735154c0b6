package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"pando/internal/systree"
	"path"
	"slices"
	"time"
)

// Given is a kernel image whose modules are in a tree that does not have the image.
type Given struct {
	Release string
	Image   []byte
}

// Copy copies kernel and modules from one tree to another and returns the release: want, or the one that Find finds
// if want is "". A path that leads out of either tree is an error.
func Copy(ctx context.Context, from, to, want string, given *Given) (release string, err error) {
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
		found, err := FindRelease(from, want)
		if err != nil {
			return "", err
		}
		data, err := src.ReadFile(found.Path)
		if err != nil {
			return "", err
		}
		given = &Given{found.Release, data}
	}
	modules := path.Join("usr/lib/modules", given.Release)
	if !hasModules(src, given.Release) {
		return "", fmt.Errorf("it has no modules of its kernel %s", given.Release)
	}
	if _, err := src.Stat(modules); err != nil {
		modules = path.Join("lib/modules", given.Release)
	}
	target := path.Join("usr/lib/modules", given.Release)
	if info, err := dst.Lstat("lib"); err == nil && info.IsDir() { // a tree in which /lib is no link to /usr/lib
		target = path.Join("lib/modules", given.Release)
	}
	restore, err := makeWay(src, modules, dst, path.Dir(target), "boot")
	if err != nil {
		return "", err
	}
	if err := copyTree(ctx, src, modules, dst, target); err != nil {
		return "", fmt.Errorf("copy modules: %w", err)
	}
	name := "boot/vmlinuz-" + given.Release
	if err := dst.RemoveAll(name); err != nil {
		return "", err
	}
	if err := dst.WriteFile(name, given.Image, 0o600); err != nil {
		return "", err
	}
	return given.Release, restore()
}

// makeWay makes directories and returns a function that restores the times of them and of those above: the old times,
// or those of the modules for new directories. The same tree and kernel then give the same version on any day.
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
	for _, at := range slices.Sorted(maps.Keys(times)) { // parents come first
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

// copyTree copies directories, files and links with modes and times, and replaces what was at the target. Everything
// is owned by root.
func copyTree(ctx context.Context, src *os.Root, from string, dst *os.Root, to string) error {
	if err := dst.RemoveAll(to); err != nil {
		return err
	}
	if err := dst.MkdirAll(to, 0o755); err != nil {
		return err
	}
	entries := systree.ReadDir(src, from)
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

// keepTimes gives a copy the mode and time of its original.
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
