package source

import (
	"archive/tar"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/systree"
)

// attributes are the metadata of a file in an archive.
type attributes struct {
	name     string // path in the archive
	uid, gid int
	mode     uint32 // permissions, set-uid, set-gid, sticky
	link     bool   // a symbolic link, which has no mode
	time     unix.Timespec
	xattrs   []xattr  // by name
	lost     []string // keys of ACLs that cannot be kept
}

type xattr struct{ name, value string }

// xattrPrefix precedes an attribute's name in the PAX archives of GNU tar, bsdtar, Docker and others.
const xattrPrefix = "SCHILY.xattr."

func attributesOf(h *tar.Header) (attributes, error) {
	a := attributes{
		name: h.Name,
		uid:  h.Uid,
		gid:  h.Gid,
		mode: uint32(h.Mode & 0o7777),
		link: h.Typeflag == tar.TypeSymlink,
		time: unix.Timespec{Sec: h.ModTime.Unix(), Nsec: int64(h.ModTime.Nanosecond())},
	}
	if h.ModTime.IsZero() {
		a.time = unix.Timespec{}
	}
	for _, id := range []int{h.Uid, h.Gid} {
		if id < 0 || id >= math.MaxUint32 { // chown takes the largest number for "unchanged"
			return a, fmt.Errorf("owner %d:%d is none that Linux has", h.Uid, h.Gid)
		}
	}
	for key, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(key, xattrPrefix); ok {
			a.xattrs = append(a.xattrs, xattr{name, value})
		}
	}
	a.otherNotations(h.PAXRecords)
	slices.SortFunc(a.xattrs, func(x, y xattr) int { return strings.Compare(x.name, y.name) })
	return a, nil
}

// dress sets the attributes of a file: the owner first, because chown clears set-uid, then mode, extended attributes
// and times. isDir is for an existing or new directory, whose old extended attributes are removed.
func (u *unpacker) dress(d directory, leaf string, a attributes, isDir bool) error {
	if err := unix.Fchownat(d.fd, leaf, a.uid, a.gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("owner %d:%d: %w", a.uid, a.gid, err)
	}
	if !a.link {
		if err := unix.Fchmodat(d.fd, leaf, a.mode, 0); err != nil {
			return fmt.Errorf("mode %04o: %w", a.mode, err)
		}
	}
	// No system call takes a directory and a name for attributes, so the path goes through /proc/self/fd.
	path := "/proc/self/fd/" + strconv.Itoa(d.fd) + "/" + leaf
	if isDir {
		if err := stripXattrs(path); err != nil {
			return err
		}
	}
	for _, key := range a.lost {
		u.tally.acls.add(a.name + " " + key)
	}
	for _, x := range a.xattrs {
		if strings.HasPrefix(x.name, "trusted.") || systree.ForeignXattr(x.name) {
			u.tally.dropped.add(a.name + " " + x.name)
			continue
		}
		if err := unix.Lsetxattr(path, x.name, []byte(x.value), 0); err != nil {
			return fmt.Errorf("attribute %s: %w", x.name, err)
		}
		if x.name == "security.capability" {
			u.tally.capable.add(a.name)
		}
	}
	if !isDir && !a.link && a.mode&unix.S_ISUID != 0 {
		u.tally.setuid.add(a.name)
	}
	if isDir {
		var st unix.Stat_t
		if err := unix.Fstatat(d.fd, leaf, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		u.times[st.Ino] = a.time
		return nil
	}
	if err := unix.UtimesNanoAt(d.fd, leaf, []unix.Timespec{a.time, a.time}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("time: %w", err)
	}
	return nil
}

// stripXattrs removes the extended attributes that a lower layer gave to a directory.
func stripXattrs(path string) error {
	buf := make([]byte, 64<<10) // the maximum length of Linux's list
	n, err := unix.Llistxattr(path, buf)
	if err == unix.ENOTSUP { //nolint:errorlint // a bare errno
		return nil
	}
	if err != nil {
		return fmt.Errorf("list attributes: %w", err)
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		if name == "" || strings.HasPrefix(name, "security.selinux") { // the system's own label cannot be removed
			continue
		}
		if err := unix.Lremovexattr(path, name); err != nil {
			return fmt.Errorf("remove attribute %s: %w", name, err)
		}
	}
	return nil
}
