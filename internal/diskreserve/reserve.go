package diskreserve

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// File and size in bytes of the reserve in the data directory. A boot writes some kilobytes, most of them over
// earlier data.
const (
	File = "reserve"
	Size = 8 << 20
)

// step is how many bytes are reserved at a time. On an almost full disk Take reserves as many steps as fit.
const step = 256 << 10

// Reserve is the reserved room in one directory. It is not safe for concurrent use.
type Reserve struct {
	dir string
}

// New returns the reserve of a directory. Take reserves the room.
func New(dir string) *Reserve { return &Reserve{dir} }

func (r *Reserve) path() string { return filepath.Join(r.dir, File) }

// Room returns how many bytes this process can still write, and the size of the disk.
func (r *Reserve) Room() (free, all int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(r.dir, &st); err != nil {
		return 0, 0, fmt.Errorf("free room of %s: %w", r.dir, err)
	}
	blocks := st.Bavail
	if os.Geteuid() == 0 {
		blocks = st.Bfree
	}
	if st.Type == unix.EXT4_SUPER_MAGIC { // ext4 keeps some blocks for itself (resv_clusters)
		blocks -= min(blocks, st.Blocks/50, 4096)
	}
	return int64(blocks) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}

// Held returns how many bytes are reserved.
func (r *Reserve) Held() int64 { return taken(r.path()) }

// taken returns how many bytes a file takes on the disk.
func taken(path string) int64 {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	return st.Blocks * 512
}

// Take reserves Size bytes, or half of the free room on a small disk.
func (r *Reserve) Take() error {
	free, _, err := r.Room()
	if err != nil {
		return err
	}
	held := r.Held()
	most := min(Size, (free+held)/2)
	if most < held+step {
		return nil
	}
	f, err := os.OpenFile(r.path(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("reserve room on the disk: %w", err)
	}
	err = errors.Join(extend(f, 0, most), f.Close())
	if err != nil && r.Held() == 0 {
		return errors.Join(err, os.Remove(r.path()))
	}
	return err
}

// extend allocates disk room for a file from one offset to another, and extends the file. If the file system cannot
// allocate, extend writes bytes that cannot be compressed.
func extend(f *os.File, from, upto int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, from, upto-from)
	if errors.Is(err, unix.EOPNOTSUPP) {
		if _, err = f.Seek(from, io.SeekStart); err == nil {
			_, err = io.CopyN(f, rand.Reader, upto-from)
		}
	}
	if err != nil {
		return fmt.Errorf("reserve room on the disk: %w", err)
	}
	return nil
}

// Give removes the reserve and gives its room to files before other processes take it. Each file gets at most its
// Share, and the last one the rest. The sizes of the files do not change. Give reports whether there was a reserve.
func (r *Reserve) Give(files ...Share) bool {
	room := r.Held()
	if room == 0 || os.Remove(r.path()) != nil {
		return false
	}
	for _, s := range files {
		room -= s.give(min(room, s.Bytes))
	}
	if len(files) > 0 && room > 0 {
		files[len(files)-1].give(room)
	}
	return true
}

// Share is a file and the number of bytes that it may get.
type Share struct {
	Path  string
	Bytes int64
}

// give allocates room for the file and returns how many bytes it got. On a file system that cannot allocate, the room
// is simply free.
func (s Share) give(bytes int64) (got int64) {
	f, err := os.OpenFile(s.Path, os.O_RDWR, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	had := taken(s.Path)
	for at := int64(0); at < had+bytes && err == nil; at += step {
		err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, at, min(step, had+bytes-at))
	}
	return taken(s.Path) - had
}
