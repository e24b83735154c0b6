package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// WriteFile replaces a file atomically: it writes a temporary file in the same directory, syncs it, renames it, and
// syncs the directory.
func WriteFile(path string, data []byte, perm os.FileMode) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, explain(err, dir))
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err != nil {
		return fmt.Errorf("write %s: %w", path, explain(err, dir))
	}
	return Replace(f, path, perm)
}

// Replace durably renames a file, which was written in the same directory, to path, and closes it. If Replace fails,
// the file keeps its name.
func Replace(f *os.File, path string, perm os.FileMode) error {
	dir := filepath.Dir(path)
	err := f.Chmod(perm)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, explain(err, dir))
	}
	return syncDir(dir)
}

// writeFile is WriteFile on the store's Disk. The caller must hold the lock.
func (d *Dir) writeFile(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	temporary := filepath.Join(dir, "."+filepath.Base(path)+".new")
	err = d.disk.WriteFile(temporary, data)
	if err == nil {
		err = d.disk.Sync(temporary)
	}
	if err == nil {
		err = d.disk.Rename(temporary, path)
	}
	if err == nil {
		err = d.disk.Sync(dir)
	}
	if err != nil {
		_ = d.disk.Remove(temporary) // otherwise the next holder of the lock removes it
		return fmt.Errorf("write %s: %w", path, explain(err, dir))
	}
	return nil
}

// syncDir makes a file, or the names in a directory, durable.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, explain(err, path))
	}
	return nil
}

// syncFS makes everything durable that was written to the file system of a directory.
func syncFS(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync file system of %s: %w", dir, explain(err, dir))
	}
	return nil
}

// explain adds to an error what a person can do about it.
func explain(err error, path string) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		free := "none"
		var st unix.Statfs_t
		if unix.Statfs(path, &st) == nil {
			free = fmt.Sprintf("%d MB in %d files", int64(st.Bavail)*st.Bsize/1e6, st.Ffree)
		}
		return fmt.Errorf("%w (free at %s: %s); make room or choose another disk with --data, then run the same "+
			"command again: it continues", bare(err), path, free)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w; is the file system of %s mounted read-only, or damaged?", err, path)
	}
	return err
}
