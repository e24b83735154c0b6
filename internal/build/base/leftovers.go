package base

import (
	"fmt"
	"io/fs"
	"os"
	"pando/internal/steps"
	"path/filepath"
)

// leftovers lists files that programs leave behind and that no image should have: caches that can be fetched again,
// and files that must differ between nodes. Clean keeps those that the version already had.
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

// Clean removes the leftovers of the programs that ran in a copy, and empties a new machine-id.
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

// sizeOfTree returns the bytes of the files at and below a path. It skips what it cannot read: the figure is only
// shown to people.
func sizeOfTree(path string) (bytes int64) {
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // the figure is only shown to people
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}
