package rootdir

import (
	"os"

	"golang.org/x/sys/unix"
)

// MountPoint makes a directory to mount on, and takes away what an attempt before has left there.
func MountPoint(dir string) error {
	_ = unix.Unmount(dir, unix.MNT_DETACH) // there was none
	return os.MkdirAll(dir, 0o755)
}
