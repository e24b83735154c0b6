package systree

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Architecture reads from its programs for which architecture a tree is; "" when none of them says, or another
// one than these.
func Architecture(tree string) string {
	for _, name := range []string{"bin/sh", "usr/bin/env", "usr/bin/dpkg", "sbin/init", "usr/lib/systemd/systemd",
		"lib/systemd/systemd", "bin/busybox"} {
		f, err := Open(tree, name, unix.O_RDONLY)
		if err != nil {
			continue
		}
		program, err := elf.NewFile(f)
		if err == nil {
			program.Close()
		}
		f.Close()
		if err != nil {
			continue
		}
		switch program.Machine {
		case elf.EM_X86_64:
			return "amd64"
		case elf.EM_AARCH64:
			return "arm64"
		}
	}
	return ""
}

// Open opens a file. Links are followed as a node follows them, with the tree as "/".
func Open(tree, name string, flags uint64) (*os.File, error) {
	dir, err := unix.Open(tree, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(
		dir,
		name,
		&unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS},
	)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Has reports whether a tree has a file. Links are followed as a node follows them, with the tree as "/".
func Has(tree, name string) bool {
	f, err := Open(tree, name, unix.O_PATH)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// Exists reports whether there is a file of any kind at a path.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// ReadDir lists a directory of a tree. What cannot be read is not found.
func ReadDir(root *os.Root, name string) []fs.DirEntry {
	f, err := root.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(-1) // what cannot be read is not found
	return entries
}

// KernelPackages reports where kernels come from, for whoever built a tree without.
func KernelPackages(tree string) string {
	debian := "linux-image-amd64 or linux-image-arm64"
	if a := Architecture(tree); a != "" {
		debian = "linux-image-" + a
	}
	return "install the kernel's package (Debian: " + debian + "; Ubuntu: linux-image-generic; Fedora: " +
		"kernel-core and kernel-modules)"
}

// Xattrs lists the names of the extended attributes of a file.
func Xattrs(path string) ([]string, error) {
	size, err := unix.Llistxattr(path, nil)
	if size == 0 || errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	buf := make([]byte, size)
	if size, err = unix.Llistxattr(path, buf); err != nil ||
		size == 0 { // an overlay counts its own and does not list them
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(buf[:size]), "\x00"), "\x00"), nil
}

// ForeignXattr tells whether an extended attribute belongs to the file system that a tree lies on, or to the machine,
// and has no place in an image: btrfs.compression, system.nfs4_acl, lustre.lov. What the overlay of a node would take
// for its own ("this directory is really that one") must not come from a tree either.
func ForeignXattr(name string) bool {
	if name == "system.posix_acl_access" || name == "system.posix_acl_default" {
		return false
	}
	space, rest, _ := strings.Cut(name, ".")
	switch space {
	case "trusted":
		return slices.ContainsFunc(ForeignTrusted(), func(begin string) bool { return strings.HasPrefix(rest, begin) })
	case "user", "security":
		return strings.HasPrefix(rest, "overlay.")
	}
	return true
}

// ForeignTrusted are the beginnings of what file systems keep in "trusted.": overlayfs, Lustre, GlusterFS, XFS.
func ForeignTrusted() []string {
	return []string{
		"overlay.", "lov", "lma", "lmv", "link", "fid", "som", "hsm", "dmv", "gfid", "glusterfs.", "afr.", "pgfid.",
		"ec.", "SGI_",
	}
}

const maxShown = 120 // bytes of a path in an error

// Shown is a path for an error, quoted, its middle left out if it is long.
func Shown(path string) string {
	if len(path) <= maxShown {
		return fmt.Sprintf("%q", path)
	}
	return fmt.Sprintf("%q...%q", path[:maxShown/2], path[len(path)-maxShown/2:])
}
