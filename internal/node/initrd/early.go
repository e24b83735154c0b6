package initrd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/link"
	"pando/internal/rundir"
)

// panicSeconds is how long after a panic the kernel reboots. The kernel panics if init dies in a way that Go cannot
// catch.
const panicSeconds = "60"

// runOptions returns the mount options of /run for a kernel release. Since Linux 6.4 /run is not swapped out
// (noswap), because swap space may be on a server that is down. Older kernels log an error for the option.
func runOptions(release string) string {
	const options = "mode=0755,size=20%"
	major, rest, _ := strings.Cut(release, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, _ := strconv.Atoi(major)
	y, err := strconv.Atoi(minor)
	if err != nil || x < 6 || x == 6 && y < 4 {
		return options
	}
	return options + ",noswap"
}

// kernelRelease returns the release of the running kernel.
func kernelRelease() string {
	var uts unix.Utsname
	_ = unix.Uname(&uts) // on an error the field stays empty
	return unix.ByteSliceToString(uts.Release[:])
}

// early mounts the file systems that every phase needs, and copies the program to /run, where it survives the
// initramfs.
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
		// With systemd's options: systemd keeps an existing mount. No noexec: the daemons run from it.
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, runOptions(kernelRelease())},
	}
	for _, x := range mounts {
		if err := os.MkdirAll(x.target, 0o755); err != nil {
			return err
		}
		err := unix.Mount(x.source, x.target, x.kind, x.flags, x.data)
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
