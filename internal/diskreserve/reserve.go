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

// The reserve: its file in the data directory, and its bytes. A boot writes some kilobytes, most of them where others
// were before.
const (
	File = "reserve"
	Size = 8 << 20
)

// step is what is reserved at a time: of a disk that is almost full what is to be had.
const step = 256 << 10

// Reserve is the room in one directory. Its user calls one method at a time.
type Reserve struct {
	dir string
}

// New returns the reserve of a directory. It takes no room yet.
func New(dir string) *Reserve { return &Reserve{dir} }

func (r *Reserve) path() string { return filepath.Join(r.dir, File) }

// Room is how many bytes a program with these rights can still write, and how many the disk has.
func (r *Reserve) Room() (free, all int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(r.dir, &st); err != nil {
		return 0, 0, fmt.Errorf("free room of %s: %w", r.dir, err)
	}
	blocks := st.Bavail
	if os.Geteuid() == 0 {
		blocks = st.Bfree
	}
	if st.Type == unix.EXT4_SUPER_MAGIC { // which keeps some for itself (resv_clusters)
		blocks -= min(blocks, st.Blocks/50, 4096)
	}
	return int64(blocks) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}

// Held is how many bytes are reserved.
func (r *Reserve) Held() int64 { return taken(r.path()) }

// taken is how many bytes of the disk a file has.
func taken(path string) int64 {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	return st.Blocks * 512
}

// Take reserves Size bytes, on a small disk half of what is free.
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

// extend gives a file room up to a size, which it has then. Where the file system cannot, bytes are written that it
// cannot compress.
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

// Give removes the reserve and gives its room to files, before others can take it: to each up to so many bytes from its
// beginning, and what is left to the last. Their size stays. It reports whether there was anything to give.
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

// Share is a file and how many bytes it may have beyond what it has.
type Share struct {
	Path  string
	Bytes int64
}

// give returns how many bytes the file got. A file system that cannot do it leaves the room to whoever comes first.
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
