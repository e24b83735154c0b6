package build

import (
	"debug/elf"
	"os"

	"golang.org/x/sys/unix"
)

// treeArchitecture reads from its programs for which architecture a tree is; "" when none of them says, or another
// one than these.
func treeArchitecture(tree string) string {
	for _, name := range []string{"bin/sh", "usr/bin/env", "usr/bin/dpkg", "sbin/init", "usr/lib/systemd/systemd", "lib/systemd/systemd", "bin/busybox"} {
		f, err := openInTree(tree, name, unix.O_RDONLY)
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

// openInTree opens a file. Links are followed as a node follows them, with the tree as "/".
func openInTree(tree, name string, flags uint64) (*os.File, error) {
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
