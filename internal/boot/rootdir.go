package boot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"pando/internal/fleet"

	"golang.org/x/sys/unix"
)

// rootDir is the new root, seen from outside. Every path is resolved as if it were the root already, so a
// symbolic link of the image ("/etc/resolv.conf -> /run/...") cannot lead a write into the initramfs.
type rootDir struct{ fd int }

func openRootDir(dir string) (*rootDir, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return &rootDir{fd}, nil
}

func (r *rootDir) close() { unix.Close(r.fd) }

func (r *rootDir) open(name string, flags uint64, mode uint64) (*os.File, error) {
	fd, err := unix.Openat2(r.fd, name, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Mode: mode,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (r *rootDir) exists(name string) bool {
	f, err := r.open(name, unix.O_PATH, 0)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// mkdirs makes a directory and its parents, and returns it open.
func (r *rootDir) mkdirs(dir string) (*os.File, error) {
	f, err := r.open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if !errors.Is(err, unix.ENOENT) || dir == "/" {
		return f, err
	}
	parent, err := r.mkdirs(path.Dir(dir))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	if err := unix.Mkdirat(int(parent.Fd()), path.Base(dir), 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, &os.PathError{Op: "mkdir", Path: dir, Err: err}
	}
	return r.open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// put writes one config file. What has its name, a symbolic link too, is replaced.
func (r *rootDir) put(f fleet.File) error {
	if !strings.HasPrefix(f.Path, "/") || path.Clean(f.Path) != f.Path || f.Path == "/" {
		return fmt.Errorf("config file %q: the path is not absolute and clean", f.Path)
	}
	dir, err := r.mkdirs(path.Dir(f.Path))
	if err != nil {
		return fmt.Errorf("config file %s: %w", f.Path, err)
	}
	defer dir.Close()
	if err := putAt(int(dir.Fd()), path.Base(f.Path), f); err != nil {
		return fmt.Errorf("config file %s: %w", f.Path, err)
	}
	return nil
}

func putAt(dir int, base string, f fleet.File) error {
	if err := unix.Unlinkat(dir, base, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if f.Target != "" {
		if err := unix.Symlinkat(f.Target, dir, base); err != nil {
			return err
		}
		return unix.Fchownat(dir, base, f.UID, f.GID, unix.AT_SYMLINK_NOFOLLOW)
	}
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
	return unix.Fchmod(fd, f.Mode&0o7777)
}

// edit rewrites a file in place, so that owner, mode and attributes stay. A file that does not exist, or that
// change leaves as it is, is not touched: touching it would copy it into memory.
func (r *rootDir) edit(name string, change func(string) string) (bool, error) {
	in, err := r.open(name, unix.O_RDONLY, 0)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	data, err := io.ReadAll(in)
	in.Close()
	if err != nil {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	text := change(string(data))
	if text == string(data) {
		return false, nil
	}
	out, err := r.open(name, unix.O_WRONLY|unix.O_TRUNC, 0)
	if err != nil {
		return false, err
	}
	defer out.Close()
	if _, err := out.WriteString(text); err != nil {
		return false, fmt.Errorf("write %s: %w", name, err)
	}
	return true, nil
}
