package mount

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// File describes a file system in a file or in a part of a file.
type File struct {
	Path   string
	Offset int64  // offset in bytes
	Size   int64  // bytes; 0: to the end of the file
	Type   string // "erofs", "ext4"
	Data   string // mount options of the file system, such as "noload"
}

// File mounts a file system at dir, read-only. The file does not change: the loop device is read-only too. A journal
// is not replayed if Data has "noload".
func (s *Stack) File(f File, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	loop, err := attach(f)
	if err != nil {
		return fmt.Errorf("mount %s: %w", f.Path, err)
	}
	defer loop.Close() // the mount keeps the device, which is freed with the mount
	if err := unix.Mount(loop.Name(), dir, f.Type, unix.MS_RDONLY|unix.MS_NOATIME, f.Data); err != nil {
		return fmt.Errorf("mount %s as %s: %w", f.Path, f.Type, err)
	}
	s.points = append(s.points, dir)
	return nil
}

// attachTries bounds how often another process may take the free loop device first.
const attachTries = 64

// attach makes a loop device of a file. The kernel frees the device when it is closed and not mounted.
func attach(f File) (*os.File, error) {
	back, err := os.Open(f.Path)
	if err != nil {
		return nil, err
	}
	defer back.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("loop devices: %w (load the module with `modprobe loop`)", err)
	}
	defer control.Close()
	for range attachTries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		loop, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &unix.LoopConfig{
			Fd: uint32(back.Fd()),
			Info: unix.LoopInfo64{
				Offset:    uint64(f.Offset),
				Sizelimit: uint64(f.Size),
				Flags:     unix.LO_FLAGS_READ_ONLY | unix.LO_FLAGS_AUTOCLEAR,
			},
		})
		if err == nil {
			return loop, nil
		}
		loop.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("attach %s: %w", loop.Name(), err)
		}
	}
	return nil, errors.New("other programs took every free loop device first")
}
