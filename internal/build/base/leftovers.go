package base

import (
	"fmt"
	"io/fs"
	"os"
	"pando/internal/steps"
	"path/filepath"
)

// leftovers are files that programs leave where they ran, and that no image should have: caches that the next run
// fetches anew, and what must not be the same on two nodes. Those that the version had before stay.
func leftovers() []string {
	return []string{
		"var/cache/apt/*.bin", "var/cache/apt/archives/*.deb", "var/cache/apt/archives/partial/*",
		"var/lib/apt/lists/*", "var/log/apt/*",
		"var/log/dpkg.log", "var/log/alternatives.log", "var/cache/ldconfig/aux-cache", "var/cache/dnf/*",
		"var/cache/yum/*",
		"var/cache/zypp/*", "var/cache/pacman/pkg/*", "var/cache/debconf/*-old", "var/lib/dpkg/*-old", "etc/*-",
		"etc/ssh/ssh_host_*", "var/lib/systemd/random-seed", "var/lib/dbus/machine-id", "boot/initrd*", "initrd.img*",
		"root/.bash_history",
	}
}

// Clean removes the leftovers of what has run in a copy. A machine-id that came to be is emptied.
func (b *Copy) Clean(each func(steps.Progress)) error {
	root, err := os.OpenRoot(b.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	bytes := int64(0)
	for _, glob := range leftovers() {
		names, err := fs.Glob(root.FS(), glob)
		if err != nil {
			return err
		}
		for _, name := range names {
			if !b.changed(name) {
				continue
			}
			bytes += sizeOfTree(filepath.Join(b.Root, name))
			if err := root.RemoveAll(name); err != nil {
				return fmt.Errorf("remove what the command left: %w", err)
			}
		}
	}
	if id, err := root.ReadFile("etc/machine-id"); err == nil && len(id) > 0 && b.changed("etc/machine-id") {
		if err := root.WriteFile("etc/machine-id", nil, 0o444); err != nil {
			return err
		}
	}
	if bytes > 0 {
		each(
			steps.Progress{
				Note: fmt.Sprintf("left out: %d KB of package lists, caches and logs", bytes/1000+1),
			},
		)
	}
	return nil
}

// sizeOfTree is the bytes of the files at and below a path. What cannot be read counts nothing: the figure is for
// people.
func sizeOfTree(path string) (bytes int64) {
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}
