package mount

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// overlayOptions let directories be renamed, keep hard links, and give all layers distinct inode numbers on one
// device. metacopy=off: a file is always copied up whole.
const overlayOptions = "redirect_dir=on,index=on,metacopy=off,xino=on"

// Stack is an ordered list of mounts that are unmounted together. Its zero value has none.
type Stack struct {
	points []string
}

// Overlay mounts an overlay at dir. lower stays unchanged, and changes go to upper. work is an empty directory on the
// file system of upper. Missing directories are created; upper gets the attributes of lower, because it becomes the
// tree's root.
func (s *Stack) Overlay(lower, upper, work, dir string) error {
	return s.Overlays([]string{lower}, upper, work, dir)
}

// Overlays is Overlay with several lower layers, the topmost first.
func (s *Stack) Overlays(lower []string, upper, work, dir string) error {
	for _, d := range []string{work, dir} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := MakeLike(lower[0], upper); err != nil {
		return fmt.Errorf("make %s: %w", upper, err)
	}
	for _, d := range slices.Concat(lower, []string{upper, work}) {
		if strings.ContainsAny(d, ",:\\") {
			return fmt.Errorf(
				"mount overlay: %q has a comma, a colon or a backslash in its name; use a directory without",
				d,
			)
		}
	}
	data := "lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + upper + ",workdir=" + work + "," + overlayOptions
	if err := mountOverlay(dir, data); err != nil {
		return fmt.Errorf(
			"mount overlay at %s: %w (the directory must be on a file system such as ext4 or XFS, not itself on "+
				"an overlay)",
			dir,
			err,
		)
	}
	s.points = append(s.points, dir)
	return nil
}

// An upper layer stays busy while another process still sees an older mount of it: one that started in a copy of the
// mount namespace. mountOverlay retries until that process ends, at most busyTries times.
const (
	busyTries = 600
	busyPause = 100 * time.Millisecond
)

func mountOverlay(dir, data string) error {
	for i := 0; ; i++ {
		err := unix.Mount("overlay", dir, "overlay", unix.MS_NOATIME, data)
		if !errors.Is(err, unix.EBUSY) || i == busyTries {
			return err
		}
		time.Sleep(busyPause) // the kernel sends no event when it becomes free
	}
}

// MakeLike creates dir, if it does not exist, with the owner, mode, extended attributes and modification time of
// another directory.
func MakeLike(old, dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(old, &st); err != nil {
		return &os.PathError{Op: "stat", Path: old, Err: err}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		if errors.Is(err, os.ErrExist) {
			return nil
		}
		return err
	}
	names := make([]byte, 64<<10)
	n, err := unix.Listxattr(old, names)
	if err != nil && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	for _, name := range strings.Split(string(names[:max(n, 0)]), "\x00") {
		if name == "" || strings.HasPrefix(name, "trusted.overlay.") { // they belong to the old layer
			continue
		}
		value := make([]byte, 64<<10)
		size, err := unix.Getxattr(old, name, value)
		if err == nil {
			err = unix.Setxattr(dir, name, value[:size], 0)
		}
		if err != nil {
			return fmt.Errorf("attribute %s: %w", name, err)
		}
	}
	if err := os.Chown(dir, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	if err := unix.Chmod(dir, st.Mode&0o7777); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, dir, []unix.Timespec{st.Mtim, st.Mtim}, 0)
}

// Bind mounts a directory at another path, read-only if readOnly.
func (s *Stack) Bind(from, dir string, readOnly bool) error {
	if err := unix.Mount(from, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", from, dir, err)
	}
	s.points = append(s.points, dir)
	if readOnly {
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("make %s read-only: %w", dir, err)
		}
	}
	return nil
}

// Close unmounts everything, in reverse order. A busy mount is detached, and the kernel frees it after its last use.
func (s *Stack) Close() error {
	var errs error
	for i := len(s.points) - 1; i >= 0; i-- {
		err := unix.Unmount(s.points[i], 0)
		if errors.Is(err, unix.EBUSY) {
			err = unix.Unmount(s.points[i], unix.MNT_DETACH)
		}
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("unmount %s: %w", s.points[i], err))
		}
	}
	s.points = nil
	return errs
}
