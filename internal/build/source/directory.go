package source

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	maxShown = 120 // bytes of a name in an error
	maxLinks = 40  // links followed in one path, as in the kernel
)

// inRoot makes the kernel resolve a name as if the tree were "/": no link leads out, not even an absolute one or
// "..".
const inRoot = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS

// directory is an open directory of the tree.
type directory struct {
	name string // cleaned name; "" for the root
	fd   int    // with O_PATH
	ino  uint64
}

// cleanName makes a name in an archive relative to the tree: "/a//./b" becomes "a/b", the tree itself "".
func cleanName(name string) (string, error) {
	parts := strings.Split(name, "/")
	kept := parts[:0]
	for _, p := range parts {
		switch p {
		case "", ".":
		case "..":
			return "", fmt.Errorf("%s leads out of the tree with \"..\"", shown(name))
		default:
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "/"), nil
}

// shown quotes a name for an error; a long name is shortened in the middle.
func shown(name string) string {
	if len(name) <= maxShown {
		return fmt.Sprintf("%q", name)
	}
	return fmt.Sprintf("%q...%q", name[:maxShown/2], name[len(name)-maxShown/2:])
}

// open opens a directory of the tree. Links in the path are followed inside the tree.
func (u *unpacker) open(name string) (directory, error) {
	if name == "" {
		name = "."
	}
	fd, err := unix.Openat2(
		u.root,
		name,
		&unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: inRoot},
	)
	if err != nil {
		return directory{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return directory{}, err
	}
	return directory{name, fd, st.Ino}, nil
}

// dir returns the directory in which an archive's file lies, and makes it if it is missing. The directory stays open
// until the next call, because neighbours in an archive mostly are neighbours in the tree.
func (u *unpacker) dir(name string, made unix.Timespec) (directory, error) {
	if u.last.fd >= 0 && u.last.name == name && !u.stale {
		return u.last, nil
	}
	u.forget()
	d, err := u.open(name)
	if errors.Is(err, unix.ENOENT) {
		if err = u.makeDirs(name, made, maxLinks); err == nil {
			d, err = u.open(name)
		}
	}
	if err != nil {
		return d, fmt.Errorf("directory %s: %w", shown(name), err)
	}
	d.name = name
	u.last = d
	return d, nil
}

// forget closes the directory that dir keeps open.
func (u *unpacker) forget() {
	if u.last.fd >= 0 {
		unix.Close(u.last.fd)
	}
	u.last, u.stale = directory{fd: -1}, false
}

// makeDirs makes directories in the path of a name that an archive does not list. If a link in the path has no
// target, as in some layers (var/lock -> /run/lock), makeDirs makes the target.
func (u *unpacker) makeDirs(name string, made unix.Timespec, links int) error {
	if links == 0 {
		return unix.ELOOP
	}
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '/' {
			continue
		}
		here := name[:i]
		d, err := u.open(here)
		if err == nil {
			unix.Close(d.fd)
			continue
		}
		if !errors.Is(err, unix.ENOENT) {
			return err
		}
		if err := u.makeDir(here, made, links); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) makeDir(name string, made unix.Timespec, links int) error {
	above, leaf := split(name)
	d, err := u.open(above)
	if err != nil {
		return err
	}
	defer unix.Close(d.fd)
	err = unix.Mkdirat(d.fd, leaf, 0o755)
	if errors.Is(err, unix.EEXIST) {
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(d.fd, leaf, buf)
		if err != nil {
			return err
		}
		target := string(buf[:n])
		if !strings.HasPrefix(target, "/") {
			target = path.Join("/", above, target)
		}
		return u.makeDirs(strings.TrimPrefix(path.Clean(target), "/"), made, links-1)
	}
	if err == nil {
		err = unix.Fchmodat(d.fd, leaf, 0o755, 0) // independent of the umask
	}
	if err == nil {
		err = u.budget.file(0)
	}
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd, leaf, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	u.times[st.Ino] = made
	u.fresh[u.entry(d.ino, leaf)] = struct{}{}
	return nil
}

// split cuts a cleaned name into directory and last element.
func split(name string) (above, leaf string) {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return "", name
}
