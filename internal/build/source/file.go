package source

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// zeros is compared with a block of a file to find holes: bytes.Equal is the fastest way.
var zeros [blockSize]byte

// regular writes a file. A block of zeros becomes a hole, so that an empty file of 100 GB takes no room.
func (u *unpacker) regular(d directory, leaf string, size int64, at attributes, content io.Reader) error {
	fd, err := unix.Openat(d.fd, leaf, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), leaf)
	defer f.Close()
	off, err := u.fill(f, content)
	if err != nil {
		return err
	}
	if off != size {
		return fmt.Errorf("it has %d bytes, its header says %d", off, size)
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	if err := u.dress(d, leaf, at, false); err != nil {
		return err
	}
	return f.Close()
}

func (u *unpacker) fill(f *os.File, content io.Reader) (off int64, err error) {
	for {
		n, err := io.ReadFull(content, u.buf)
		if n > 0 && !bytes.Equal(u.buf[:n], zeros[:n]) {
			if _, err := f.WriteAt(u.buf[:n], off); err != nil {
				return off, err
			}
		}
		off += int64(n)
		if err == io.EOF ||
			errors.Is(err, io.ErrUnexpectedEOF) && n > 0 && n < len(u.buf) { //nolint:errorlint // ReadFull's own
			return off, nil
		}
		if err != nil {
			return off, fmt.Errorf("read archive: %w", err)
		}
	}
}

// hardLink gives a file of the tree a second name. If the target is a link, the link itself gets the name.
func (u *unpacker) hardLink(d directory, leaf, target string) error {
	name, err := cleanName(target)
	if err != nil {
		return fmt.Errorf("hard link: %w", err)
	}
	above, from := split(name)
	t, err := u.open(above)
	if err == nil {
		defer unix.Close(t.fd)
		err = unix.Linkat(t.fd, from, d.fd, leaf, 0)
	}
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("hard link to %s, which is not there: the archive has it later, or not at all", shown(target))
	}
	if err != nil {
		return fmt.Errorf("hard link to %s: %w", shown(target), err)
	}
	return nil
}

// sameFile reports whether the target of a hard link is the file that already has the link's name.
func (u *unpacker) sameFile(target string, st *unix.Stat_t) (bool, error) {
	name, err := cleanName(target)
	if err != nil {
		return false, fmt.Errorf("hard link: %w", err)
	}
	above, leaf := split(name)
	d, err := u.open(above)
	if err != nil {
		return false, nil //nolint:nilerr // making the link reports the error
	}
	defer unix.Close(d.fd)
	var t unix.Stat_t
	err = unix.Fstatat(d.fd, leaf, &t, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && t.Ino == st.Ino && t.Dev == st.Dev, nil
}

// node makes a device node or a pipe. Device nodes are kept, because a tree without /dev/console is another tree.
func (u *unpacker) node(d directory, leaf string, h *tar.Header) error {
	mode, device := uint32(unix.S_IFIFO), uint64(0)
	switch h.Typeflag {
	case tar.TypeChar:
		mode = unix.S_IFCHR
	case tar.TypeBlock:
		mode = unix.S_IFBLK
	}
	if h.Typeflag != tar.TypeFifo {
		if h.Devmajor < 0 || h.Devmajor >= 1<<12 || h.Devminor < 0 || h.Devminor >= 1<<20 {
			return fmt.Errorf(
				"device %d:%d: Linux has 12 bits for the first number and 20 for the second",
				h.Devmajor,
				h.Devminor,
			)
		}
		device = unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))
		u.tally.devices.add(h.Name)
	}
	err := unix.Mknodat(d.fd, leaf, mode|0o600, int(device))
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf(
			"make device node %d:%d: %w; it needs root, and a container that may (CAP_MKNOD)",
			h.Devmajor,
			h.Devminor,
			err,
		)
	}
	return err
}
