package rootdir

import (
	"os"

	"golang.org/x/sys/unix"
)

// MountPoint makes a directory to mount on, and unmounts what an earlier attempt mounted there.
func MountPoint(dir string) error {
	_ = unix.Unmount(dir, unix.MNT_DETACH) // it is usually not mounted
	return os.MkdirAll(dir, 0o755)
}
