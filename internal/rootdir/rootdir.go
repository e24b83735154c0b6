package rootdir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/fleet"
)

// Dir is a mounted root file system. Every path is resolved as if it were the root already, so that a symbolic link
// of the image ("/etc/resolv.conf -> /run/...") cannot lead a write out of it.
type Dir struct{ fd int }

// Open opens the root that is mounted at dir.
func Open(dir string) (*Dir, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return &Dir{fd}, nil
}

// Close closes the root.
func (r *Dir) Close() { unix.Close(r.fd) }

// Open opens a file by its path in the root, with the flags and mode of openat2(2).
func (r *Dir) Open(name string, flags uint64, mode uint64) (*os.File, error) {
	fd, err := unix.Openat2(r.fd, name, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Mode: mode,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Exists reports whether the path leads to an existing file.
func (r *Dir) Exists(name string) bool {
	f, err := r.Open(name, unix.O_PATH, 0)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// Mkdirs makes a directory and its parents, and returns it open.
func (r *Dir) Mkdirs(dir string) (*os.File, error) {
	f, err := r.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if !errors.Is(err, unix.ENOENT) || dir == "/" {
		return f, err
	}
	parent, err := r.Mkdirs(path.Dir(dir))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	if err := unix.Mkdirat(int(parent.Fd()), path.Base(dir), 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, &os.PathError{Op: "mkdir", Path: dir, Err: err}
	}
	return r.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// Put writes one config file. It replaces a file or symbolic link of that name.
func (r *Dir) Put(f fleet.File) error {
	if !strings.HasPrefix(f.Path, "/") || path.Clean(f.Path) != f.Path || f.Path == "/" {
		return fmt.Errorf("config file %q: the path is not absolute and clean", f.Path)
	}
	if f.Owner != "" {
		var err error
		if f.UID, f.GID, err = r.owner(f.Owner); err != nil {
			return fmt.Errorf("config file %s: %w", f.Path, err)
		}
	}
	dir, err := r.Mkdirs(path.Dir(f.Path))
	if err != nil {
		return fmt.Errorf("config file %s: %w", f.Path, err)
	}
	defer dir.Close()
	if err := putAt(int(dir.Fd()), path.Base(f.Path), f); err != nil {
		return fmt.Errorf("config file %s: %w", f.Path, err)
	}
	return nil
}

// putAt writes the file under a temporary name and renames it, so that nobody reads an incomplete file.
func putAt(dir int, base string, f fleet.File) error {
	beside := ".pando-" + base
	err := unix.Unlinkat(dir, beside, 0)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if f.Target != "" {
		if err = unix.Symlinkat(f.Target, dir, beside); err == nil {
			err = unix.Fchownat(dir, beside, f.UID, f.GID, unix.AT_SYMLINK_NOFOLLOW)
		}
	} else {
		err = writeAt(dir, beside, f)
	}
	if err == nil {
		err = unix.Renameat(dir, beside, dir, base)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, beside, 0)
		return err
	}
	return nil
}

func writeAt(dir int, base string, f fleet.File) error {
	fd, err := unix.Openat(dir, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), base)
	defer file.Close()
	if _, err := file.Write(f.Data); err != nil {
		return err
	}
	if err := file.Chown(f.UID, f.GID); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, f.Mode&0o7777); err != nil {
		return err
	}
	return file.Sync()
}

// Edit rewrites a file in place, so that owner, mode and attributes stay, and reports whether it did. It does not
// open a file for writing that change leaves unchanged: that would copy it to the write layer.
func (r *Dir) Edit(name string, change func(string) string) (bool, error) {
	data, err := r.read(name)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	text := change(string(data))
	if text == string(data) {
		return false, nil
	}
	out, err := r.Open(name, unix.O_WRONLY|unix.O_TRUNC, 0)
	if err != nil {
		return false, err
	}
	defer out.Close()
	if _, err := out.WriteString(text); err != nil {
		return false, fmt.Errorf("write %s: %w", name, err)
	}
	return true, nil
}

// read returns the content of a file of the root.
func (r *Dir) read(name string) ([]byte, error) {
	in, err := r.Open(name, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}

// owner returns the IDs of "user" or "user:group", which are names in the root's passwd and group files, or numbers.
func (r *Dir) owner(text string) (uid, gid int, err error) {
	user, group, both := strings.Cut(text, ":")
	if user != "" {
		if uid, gid, err = r.account("/etc/passwd", user); err != nil {
			return 0, 0, err
		}
	}
	if both && group != "" {
		gid, _, err = r.account("/etc/group", group)
	}
	return uid, gid, err
}

// account finds a name in passwd(5), whose third and fourth fields are the ids of user and group, or in group(5).
func (r *Dir) account(file, name string) (id, group int, err error) {
	if id, err := strconv.Atoi(name); err == nil {
		return id, id, nil
	}
	data, err := r.read(file)
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Split(line, ":"); len(f) > 3 && f[0] == name {
			id, err = strconv.Atoi(f[2])
			group, _ = strconv.Atoi(f[3]) // in group(5) this field is a list of members, and group is not used
			return id, group, err
		}
	}
	return 0, 0, fmt.Errorf("the image's %s has no %q", file, name)
}
