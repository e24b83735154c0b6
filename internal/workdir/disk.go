package workdir

import (
	"errors"
	"fmt"
	"os"
	"pando/internal/command"
	"strings"

	"golang.org/x/sys/unix"
)

// FileSize returns the size of a file, 0 if it does not exist.
func FileSize(name string) int64 {
	info, err := os.Stat(name)
	if err != nil {
		return 0
	}
	return info.Size()
}

// CheckRoom returns an error with numbers if dir's disk has no room for size more bytes.
func CheckRoom(dir string, size int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil //nolint:nilerr // continue without the check; a full disk is noticed later
	}
	if free := int64(st.Bavail) * st.Bsize; free < size {
		return fmt.Errorf(
			"%w: the raw image needs %d MB at %s, %d MB are free; make room or choose another disk with --data, "+
				"then run the same command again: it continues",
			unix.ENOSPC,
			size/1e6+1,
			dir,
			free/1e6,
		)
	}
	return nil
}

// FullDisk adds ENOSPC to the error of a program that reported a full disk.
func FullDisk(err error, dir string) error {
	var failed *command.Error
	if !errors.As(err, &failed) || !strings.Contains(strings.Join(failed.Tail, "\n"), unix.ENOSPC.Error()) &&
		!strings.Contains(strings.Join(failed.Tail, "\n"), "No space left on device") {
		return err
	}
	return fmt.Errorf("%w at %s: %w; make room or choose another disk with --data, then run the same command again: "+
		"it continues", unix.ENOSPC, dir, err)
}

// SyncTree makes the file system of a tree durable.
func SyncTree(root string) error {
	f, err := os.Open(root)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
