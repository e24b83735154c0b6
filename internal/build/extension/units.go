package extension

import (
	"errors"
	"io/fs"
	"os"
	"pando/internal/systree"
	"path"
	"path/filepath"
	"strings"
)

// Directories with the links that enable units: those of the machine, and those of installed packages.
const (
	unitsOfMachine = "etc/systemd/system"
	unitsOfVendor  = "usr/lib/systemd/system"
)

// services moves the links by which packages enabled units from /etc to /usr. It returns the files outside of /usr
// and /opt of the packages whose units are enabled, with the package of each.
func (e *Extension) services(root *os.Root) (map[string]string, error) {
	enabled := map[string]bool{}
	err := fs.WalkDir(
		os.DirFS(filepath.Join(e.Upper)),
		unitsOfMachine,
		func(rel string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || d.Type() != fs.ModeSymlink {
				return err
			}
			target, err := os.Readlink(filepath.Join(e.Upper, rel))
			if err != nil {
				return err
			}
			unit := path.Base(target)
			if !systree.Exists(filepath.Join(e.Upper, unitsOfVendor, unit)) {
				return nil // a unit of the base: the node decides whether it is enabled
			}
			enabled[unit] = true
			return e.enable(root, strings.TrimPrefix(rel, unitsOfMachine+"/"), rel, unit)
		},
	)
	if err != nil {
		return nil, err
	}
	return e.owned(root, enabled), nil
}

// enable replaces a link in /etc by one below /usr. name is "multi-user.target.wants/x.service", or another name of
// the unit.
func (e *Extension) enable(root *os.Root, name, link, unit string) error {
	to := path.Join(unitsOfVendor, name)
	target := unit
	if dir := path.Dir(name); dir != "." {
		target = "../" + unit
		if err := root.MkdirAll(path.Join(unitsOfVendor, dir), 0o755); err != nil {
			return err
		}
	}
	err := root.Symlink(target, to)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return root.Remove(link)
}

// owned maps the files outside of /usr and /opt that belong to a package with an enabled unit to that package.
func (e *Extension) owned(root *os.Root, enabled map[string]bool) map[string]string {
	out := map[string]string{}
	for _, p := range e.New {
		var mine []string
		runs := false
		for _, name := range []string{p.Name, p.Name + ":" + p.Architecture} {
			text, err := root.ReadFile(systree.DpkgInfo + "/" + name + ".list")
			if err != nil {
				continue // not a Debian package: its files are not known
			}
			for line := range strings.Lines(string(text)) {
				file := strings.TrimPrefix(strings.TrimSpace(line), "/")
				runs = runs || strings.Contains(file, "/systemd/system/") && enabled[path.Base(file)]
				if info, err := root.Lstat(file); err == nil && !info.IsDir() &&
					!isBelow(file, append(carried(), "bin", "sbin", "lib", "etc/default")) {
					mine = append(mine, file)
				}
			}
		}
		for _, file := range mine {
			if runs {
				out[file] = "package " + p.Name
			}
		}
	}
	return out
}

// keepAlternatives makes names that lead through /etc/alternatives point to their programs directly, if the base does
// not have the alternative.
func (e *Extension) keepAlternatives(root *os.Root) error {
	const place = "etc/alternatives"
	entries, err := os.ReadDir(filepath.Join(e.Upper, place))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	direct := map[string]string{}
	for _, d := range entries {
		name := path.Join(place, d.Name())
		target, err := os.Readlink(filepath.Join(e.Upper, name))
		if err != nil || systree.Exists(filepath.Join(e.Lower, name)) {
			continue // removed, or the base already has this alternative
		}
		direct["/"+name] = target
		if err := root.Remove(name); err != nil {
			return err
		}
	}
	return e.redirect(root, direct)
}

func (e *Extension) redirect(root *os.Root, direct map[string]string) error {
	return fs.WalkDir(os.DirFS(e.Upper), "usr", func(rel string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.Type() != fs.ModeSymlink {
			return err
		}
		link, err := os.Readlink(filepath.Join(e.Upper, rel))
		if err != nil || direct[link] == "" {
			return err
		}
		if err := root.Remove(rel); err != nil {
			return err
		}
		return root.Symlink(direct[link], rel)
	})
}
