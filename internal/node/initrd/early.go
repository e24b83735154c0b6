package initrd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"pando/internal/link"
	"pando/internal/rundir"
)

// panicSeconds makes the kernel reboot if init dies in a way that Go cannot catch.
const panicSeconds = "60"

// runOptions are those of /run. What is in it is the system's, and where the kernel can, it is not swapped out:
// swap space may be on a server that is away.
const runOptions = "mode=0755,size=20%"

// early mounts what every phase needs and puts the program where it outlives the initramfs.
func early() error {
	unix.Umask(0)
	mounts := []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, "mode=0755"},
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV, ""},
		{"sysfs", "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV, ""},
		// As systemd would mount it; it keeps what it finds. Programs must run from it: ours do.
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, runOptions + ",noswap"},
	}
	for _, x := range mounts {
		if err := os.MkdirAll(x.target, 0o755); err != nil {
			return err
		}
		err := unix.Mount(x.source, x.target, x.kind, x.flags, x.data)
		if x.target == "/run" && errors.Is(err, unix.EINVAL) { // before Linux 6.4
			err = unix.Mount(x.source, x.target, x.kind, x.flags, runOptions)
		}
		if err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", x.target, err)
		}
	}
	_ = os.WriteFile("/proc/sys/kernel/panic", []byte(panicSeconds), 0o644)
	if err := os.MkdirAll(rundir.Dir, 0o711); err != nil {
		return err
	}
	if err := copyFile("/proc/self/exe", filepath.Join(rundir.Dir, rundir.BinaryName), 0o755); err != nil {
		return fmt.Errorf("copy the program to %s: %w", rundir.Dir, err)
	}
	return link.LoopbackUp()
}

func copyFile(from, to string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
