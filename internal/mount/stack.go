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

// overlayOptions: directories may be renamed and hard links stay what they are; inode numbers of all layers are
// told apart, so that a file is on the same device as its directory. No file is only half copied up.
const overlayOptions = "redirect_dir=on,index=on,metacopy=off,xino=on"

// Stack is the mounts that belong together, in order. Its zero value has none.
type Stack struct {
	points []string
}

// Overlay mounts lower, which stays unchanged, at dir; changes go to upper. work is an empty directory on the file
// system of upper. It makes missing directories, upper with the attributes of lower, because upper becomes the tree's
// root.
func (s *Stack) Overlay(lower, upper, work, dir string) error {
	return s.Overlays([]string{lower}, upper, work, dir)
}

// Overlays is Overlay with several layers below, the topmost first.
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

// How long an overlay is waited for that had the same upper layer: a program that was started beside it, and sees
// the mounts of that time, lets go of them when it ends.
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
		time.Sleep(busyPause) // nobody tells when it is free
	}
}

// MakeLike makes a missing directory with the owner, mode, attributes and time of another one.
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
		if name == "" || strings.HasPrefix(name, "trusted.overlay.") { // what a layer was once the upper one of
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

// Bind mounts a directory at another place, read-only if readOnly.
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

// Close takes the mounts away, the last one first. What is in use is taken out of sight, and goes when it is let go.
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
