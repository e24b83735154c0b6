package testkit

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The kernel's interface for emulators, and the entry that Debian's package qemu-user-static gives to systemd.
const (
	binfmt      = "/proc/sys/fs/binfmt_misc"
	arm64Binfmt = "/usr/lib/binfmt.d/qemu-aarch64.conf"
)

// RunARM64 makes this machine's kernel run arm64 programs, as systemd does if it runs. undo reverts the change. The
// error wraps fs.ErrNotExist if the emulator is not installed.
func RunARM64() (undo func() error, err error) {
	entry := binfmt + "/qemu-aarch64"
	if _, err := os.Stat(entry); err == nil {
		return func() error { return nil }, nil
	}
	text, err := os.ReadFile(arm64Binfmt)
	if err != nil {
		return nil, fmt.Errorf("programs of arm64: %w (Debian's package qemu-user-static has it)", err)
	}
	unmount := func() error { return nil }
	if _, err := os.Stat(binfmt + "/register"); err != nil {
		if err := unix.Mount("binfmt_misc", binfmt, "binfmt_misc", 0, ""); err != nil {
			return nil, fmt.Errorf("programs of arm64: mount %s: %w", binfmt, err)
		}
		unmount = func() error { return unix.Unmount(binfmt, 0) }
	}
	if err := os.WriteFile(binfmt+"/register", text, 0o200); err != nil {
		return nil, errors.Join(fmt.Errorf("programs of arm64: %w", err), unmount())
	}
	return func() error { return errors.Join(os.WriteFile(entry, []byte("-1"), 0o200), unmount()) }, nil
}
