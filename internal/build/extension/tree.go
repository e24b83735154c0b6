package extension

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/image"
	"pando/internal/mount"
	"pando/internal/systree"
)

// carried lists the top directories that an extension has.
func carried() []string { return []string{"usr", "opt"} }

// Extension is a changed copy of a version, from which an extension of that version is made.
type Extension struct {
	Name  string
	Force bool   // make it even if something that it needs cannot be in it
	Root  string // the changed copy
	Lower string // the version
	Upper string // what has changed, as the upper layer of an overlay

	Left []Left          // what cannot be carried
	New  []image.Package // packages that the version does not have in this version
}

// Harvest collects the changes in the copy of the base and turns them into what an extension can carry.
func (e *Extension) Harvest(begin time.Time) (err error) {
	root, err := os.OpenRoot(e.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	e.New = newPackages(systree.Packages(e.Lower), systree.Packages(e.Root))
	services, err := e.services(root)
	if err != nil {
		return err
	}
	if err := e.keepAlternatives(root); err != nil {
		return err
	}
	if err := e.name(root); err != nil {
		return err
	}
	changes, err := e.outside()
	if err != nil {
		return err
	}
	e.Left = append(e.Left, judge(changes, services)...)
	if slices.ContainsFunc(e.Left, func(l Left) bool { return l.Essential }) && !e.Force {
		return &EssentialError{e.Name, e.Left}
	}
	if err := systree.SettleChanged(e.Root, e.Upper, "var/lib/apt/lists", begin); err != nil {
		return err
	}
	return e.likeBase()
}

// newPackages returns the packages of after that before does not have in the same version.
func newPackages(before, after []image.Package) (out []image.Package) {
	for _, p := range after {
		if !slices.Contains(before, p) {
			out = append(out, p)
		}
	}
	return out
}

// name writes the extension-release file, by which systemd-sysext recognizes an extension and the system that it
// fits.
func (e *Extension) name(root *os.Root) error {
	text, err := root.ReadFile("etc/os-release")
	if err != nil {
		text, err = root.ReadFile("usr/lib/os-release")
	}
	if err != nil {
		return fmt.Errorf("read the os-release of the base: %w", err)
	}
	const dir = "usr/lib/extension-release.d"
	if err := root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return root.WriteFile(dir+"/extension-release."+e.Name, []byte(releaseFile(string(text))), 0o644)
}

// outside lists the changes outside of /usr and /opt; a new directory counts as one change. It also reports removed
// files below /usr and /opt.
func (e *Extension) outside() (out []outside, err error) {
	lower := e.Lower
	err = filepath.WalkDir(e.Upper, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(at, e.Upper), "/")
		gone := d.Type()&fs.ModeCharDevice != 0 && isWhiteout(at)
		switch {
		case rel == "",
			rel == "etc",
			rel == "var",
			d.IsDir() && systree.Exists(filepath.Join(lower, rel)) && !isBelow(rel, carried()):
			return nil
		case isBelow(rel, carried()):
			if gone {
				e.Left = append(e.Left, Left{Path: "/" + rel, Why: "was removed here, but nodes still have it"})
			}
			return e.checkCarried(at, rel)
		case d.IsDir() && isBelow(rel, []string{unitsOfMachine}):
			return nil // links inside of it may lead to /usr
		}
		out = append(out, e.change(rel, gone))
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return out, err
}

func (e *Extension) change(rel string, gone bool) outside {
	c := outside{path: rel, gone: gone}
	if slices.Contains(accounts(), rel) {
		before, _ := os.ReadFile(filepath.Join(e.Lower, rel)) // the base may not have this file
		after, _ := os.ReadFile(filepath.Join(e.Upper, rel))
		c.users = newNames(string(before), string(after))
	}
	return c
}

// checkCarried returns an error for a file that the overlay stores only as a reference to the base.
func (e *Extension) checkCarried(at, rel string) error {
	if _, err := unix.Lgetxattr(at, "trusted.overlay.redirect", nil); err == nil {
		return fmt.Errorf("/%s is a directory of the base under another name: copy it instead of moving it", rel)
	}
	return nil
}

// isWhiteout reports whether a file in the upper layer of an overlay marks a removed file.
func isWhiteout(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

// likeBase gives directories that the base also has the owner, mode and time that they have there. The extension's
// directories cover those of the base on every node.
func (e *Extension) likeBase() error {
	for _, top := range carried() {
		err := filepath.WalkDir(filepath.Join(e.Upper, top), func(at string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && d == nil {
				return nil
			}
			if err != nil || !d.IsDir() {
				return err
			}
			rel := strings.TrimPrefix(at, e.Upper)
			var st unix.Stat_t
			if unix.Lstat(e.Lower+rel, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
				return nil
			}
			dir := e.Root + rel
			if err := errors.Join(os.Chown(dir, int(st.Uid), int(st.Gid)),
				unix.Chmod(dir, st.Mode&0o7777)); err != nil {
				return err
			}
			return unix.UtimesNanoAt(unix.AT_FDCWD, dir, []unix.Timespec{st.Mtim, st.Mtim}, 0)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// TakeOut moves the extension's files from the upper layer of an unmounted overlay to a tree of their own, without
// the attributes that only an overlay understands.
func TakeOut(upper, tree string) error {
	if err := mount.MakeLike(upper, tree); err != nil {
		return err
	}
	for _, top := range carried() {
		from := filepath.Join(upper, top)
		if !systree.Exists(from) {
			continue
		}
		err := filepath.WalkDir(from, func(at string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if isWhiteout(at) {
				return keepTime(filepath.Dir(at), func() error { return os.Remove(at) })
			}
			return dropOverlayMarks(at)
		})
		if err != nil {
			return err
		}
		if err := os.Rename(from, filepath.Join(tree, top)); err != nil {
			return err
		}
	}
	at := unix.NsecToTimespec(0) // the root directory is not visible on a node: only usr and opt are mounted
	return unix.UtimesNanoAt(unix.AT_FDCWD, tree, []unix.Timespec{at, at}, 0)
}

// keepTime calls do, which changes a directory, and restores the directory's times.
func keepTime(dir string, do func() error) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, dir, []unix.Timespec{st.Mtim, st.Mtim}, 0)
}

func dropOverlayMarks(at string) error {
	names, err := systree.Xattrs(at)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "trusted.overlay.") {
			if err := unix.Lremovexattr(at, name); err != nil {
				return err
			}
		}
	}
	return nil
}
