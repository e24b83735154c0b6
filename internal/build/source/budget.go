package source

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// maxRatio bounds the bytes unpacked per byte read, unless the user set a size limit. Root file systems have a
	// ratio of 2 to 5. gzip cannot exceed 1032, other compressors reach millions.
	maxRatio = 1000

	// ratioFrom is how many bytes are unpacked before the ratio is checked: a tree with an empty swap file is no
	// attack.
	ratioFrom = 4 << 30

	// maxFiles bounds the files of a tree on a file system without a fixed number of inodes.
	maxFiles = 50_000_000
)

// budget counts what the archives of one tree use, and compares it with the limits.
type budget struct {
	free  int64        // bytes that the tree's files may have
	asked bool         // free was given with --max-size
	from  int64        // bytes unpacked before the ratio is checked
	files int64        // files that may still be made
	bytes int64        // bytes of files so far, with holes
	out   int64        // bytes unpacked so far
	in    atomic.Int64 // bytes read so far, as stored; atomic, because another goroutine may feed the decompressor
}

// newBudget uses the free space of a directory's file system for limits that are not set.
func newBudget(dir string, l Limits) (*budget, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil, fmt.Errorf("free space of %s: %w", dir, err)
	}
	b := &budget{free: int64(st.Bavail) * st.Bsize, files: maxFiles, from: ratioFrom}
	if st.Files > 0 {
		b.files = min(b.files, int64(st.Ffree))
	}
	if l.MaxSize > 0 {
		b.free, b.asked = l.MaxSize, true
	}
	return b, nil
}

// LimitError means that a tree would be larger than its limit.
type LimitError struct {
	What string
	Hint string
}

func (e *LimitError) Error() string { return e.What + "; " + e.Hint }

// file counts a file of size bytes, before it is made.
func (b *budget) file(size int64) error {
	if b.files--; b.files < 0 {
		return &LimitError{
			"more files than the disk has room for",
			"a tree needs one inode for each: choose another disk with --data",
		}
	}
	if b.bytes += size; b.bytes > b.free || b.bytes < 0 {
		return b.tooLarge()
	}
	return nil
}

func (b *budget) tooLarge() error {
	if b.asked {
		return &LimitError{
			fmt.Sprintf("its files have more than the %d MB that --max-size allows", b.free/1e6),
			"if that is meant, raise it",
		}
	}
	return &LimitError{fmt.Sprintf("its files have more than the %d MB that are free", b.free/1e6),
		"holes count, since the raw image has them too: make room, or choose another disk with --data"}
}

// check compares the counts with the limits. It is called after each read of an archive.
func (b *budget) check() error {
	if b.out > b.from && !b.asked && b.out/maxRatio > b.in.Load() {
		return &LimitError{
			fmt.Sprintf("%d MB of it unpack to %d MB so far, which is no root file system", b.in.Load()/1e6, b.out/1e6),
			"if it is one, say how large it may be with --max-size",
		}
	}
	// An archive consists of its files and a few blocks for each. A much longer one is no root file system.
	if b.out > b.from && b.out/2 > b.free {
		return b.tooLarge()
	}
	return nil
}

// packed counts the stored bytes read from an archive.
type packed struct {
	r io.Reader
	b *budget
}

func (p packed) Read(buf []byte) (int, error) {
	n, err := p.r.Read(buf)
	p.b.in.Add(int64(n))
	return n, err
}

// unpacked counts the bytes that an archive unpacks to, and fails at the limit.
type unpacked struct {
	r     io.Reader
	b     *budget
	zeros int // zero bytes at the end of what was read so far
}

func (u *unpacked) Read(buf []byte) (int, error) {
	n, err := u.r.Read(buf)
	u.b.out += int64(n)
	kept := len(bytes.TrimRight(buf[:n], "\x00"))
	if kept > 0 {
		u.zeros = 0
	}
	u.zeros += n - kept
	if bad := u.b.check(); bad != nil {
		return n, bad
	}
	return n, err
}
