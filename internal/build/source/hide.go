package source

import (
	"archive/tar"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Names with a meaning in a layer: OCI image specification, layer.md, "Whiteouts".
const (
	whiteoutPrefix = ".wh."
	opaqueName     = ".wh..wh..opq"
	aufsPrefix     = ".wh..wh." // prefix of aufs' own records, which are ignored
)

// entry returns a 64-bit hash of a directory entry. Each run has its own seed, so that an archive cannot be made to
// contain collisions.
func (u *unpacker) entry(dir uint64, leaf string) uint64 {
	var h maphash.Hash
	h.SetSeed(u.seed)
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], dir)
	h.Write(b[:])
	h.WriteString(leaf)
	return h.Sum64()
}

// whiteout applies an entry if it is a whiteout. It hides only files of lower layers, wherever it stands in its own
// layer.
func (u *unpacker) whiteout(name string, h *tar.Header) (done bool, err error) {
	above, leaf := split(name)
	for _, part := range strings.Split(above, "/") {
		if strings.HasPrefix(part, aufsPrefix) {
			return true, nil
		}
		if strings.HasPrefix(part, whiteoutPrefix) {
			return true, errors.New("a name below a whiteout: no directory may be named .wh.*")
		}
	}
	hidden, ok := strings.CutPrefix(leaf, whiteoutPrefix)
	if !ok {
		return false, nil
	}
	if leaf != opaqueName && strings.HasPrefix(leaf, aufsPrefix) {
		return true, nil
	}
	if leaf != opaqueName && (hidden == "" || hidden == "." || hidden == "..") {
		return true, errors.New("a whiteout of no file")
	}
	d, err := u.open(above)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return true, nil // no lower layer has the file
	}
	if err != nil {
		return true, err
	}
	defer unix.Close(d.fd)
	if leaf == opaqueName {
		return true, u.hideAll(d, false)
	}
	return true, u.remove(d, hidden, false)
}

// remove removes a directory entry with everything below it. Unless all is set, it keeps what the present archive
// made.
func (u *unpacker) remove(d directory, leaf string, all bool) error {
	u.stale = true
	var st unix.Stat_t
	err := unix.Fstatat(d.fd, leaf, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if isDir {
		if err := u.removeBelow(d, leaf, st.Ino, all); err != nil {
			return err
		}
	}
	key := u.entry(d.ino, leaf)
	if _, fresh := u.fresh[key]; fresh && !all {
		return nil
	}
	flags := 0
	if isDir {
		flags = unix.AT_REMOVEDIR
	}
	err = unix.Unlinkat(d.fd, leaf, flags)
	if errors.Is(err, unix.ENOTEMPTY) && !all {
		return nil // it contains files of the present archive, which did not list the directory
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", shown(leaf), err)
	}
	delete(u.fresh, key)
	if isDir {
		delete(u.times, st.Ino)
	}
	return nil
}

func (u *unpacker) removeBelow(d directory, leaf string, ino uint64, all bool) error {
	fd, err := unix.Openat(d.fd, leaf, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return u.hideAll(directory{fd: fd, ino: ino}, all)
}

// hideAll removes the content of a directory, as remove does.
func (u *unpacker) hideAll(d directory, all bool) error {
	names, err := d.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := u.remove(d, name, all); err != nil {
			return err
		}
	}
	return nil
}

// names lists the names in a directory.
func (d directory) names() ([]string, error) {
	fd, err := unix.Openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), d.name)
	defer f.Close()
	return f.Readdirnames(-1)
}

// setTimes sets the times of the tree's directories to those in the archives, deepest first.
func (u *unpacker) setTimes(ctx context.Context, d directory, leaf string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fd, err := unix.Openat(d.fd, leaf, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), leaf)
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := u.setTimes(ctx, directory{fd: fd}, e.Name()); err != nil {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	t := u.times[st.Ino]
	return unix.UtimesNanoAt(d.fd, leaf, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
}
