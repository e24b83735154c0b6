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

// Architecture determines the architecture of a tree from its programs; "" if it is unknown or not supported.
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

// Open opens a file of a tree. It follows links as on a node, with the tree as "/".
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

// Has reports whether a tree has a file. It follows links as on a node, with the tree as "/".
func Has(tree, name string) bool {
	f, err := Open(tree, name, unix.O_PATH)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// Exists reports whether a path exists, without following a link.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// ReadDir lists a directory of a tree. It leaves out what cannot be read.
func ReadDir(root *os.Root, name string) []fs.DirEntry {
	f, err := root.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(-1) // leave out what cannot be read
	return entries
}

// KernelPackages names the packages with kernels, for a tree without a kernel.
func KernelPackages(tree string) string {
	debian := "linux-image-amd64 or linux-image-arm64"
	if a := Architecture(tree); a != "" {
		debian = "linux-image-" + a
	}
	return "install the kernel's package (Debian: " + debian + "; Ubuntu: linux-image-generic; Fedora: " +
		"kernel-core and kernel-modules)"
}

// Xattrs lists the names of a file's extended attributes.
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
		size == 0 { // an overlay counts its own attributes but does not list them
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(buf[:size]), "\x00"), "\x00"), nil
}

// ForeignXattr reports whether an attribute does not belong in an image: one of the tree's file system or machine
// (btrfs.compression, system.nfs4_acl, lustre.lov), or one that the overlay of a node would interpret as its own.
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

// ForeignTrusted lists the prefixes, after "trusted.", of attributes of overlayfs, Lustre, GlusterFS and XFS.
func ForeignTrusted() []string {
	return []string{
		"overlay.", "lov", "lma", "lmv", "link", "fid", "som", "hsm", "dmv", "gfid", "glusterfs.", "afr.", "pgfid.",
		"ec.", "SGI_",
	}
}

const maxShown = 120 // bytes of a path in an error

// Shown quotes a path for an error; a long path is shortened in the middle.
func Shown(path string) string {
	if len(path) <= maxShown {
		return fmt.Sprintf("%q", path)
	}
	return fmt.Sprintf("%q...%q", path[:maxShown/2], path[len(path)-maxShown/2:])
}
