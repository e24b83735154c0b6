package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"pando/internal/chunk"
)

// maxVerified bounds how many files are remembered as whole.
const maxVerified = 4096

// verified remembers which files of objects were read and had the bytes of their names.
type verified struct {
	mu    sync.Mutex
	whole map[chunk.ID]stamp
}

// stamp tells a file that was changed or replaced from the one that was read.
type stamp struct {
	size    int64
	inode   uint64
	modTime time.Time
	changed syscall.Timespec // of the inode: who sets the other time cannot set this one
}

func stampOf(f *os.File) (stamp, error) {
	info, err := f.Stat()
	if err != nil {
		return stamp{}, err
	}
	s := stamp{size: info.Size(), modTime: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode, s.changed = st.Ino, st.Ctim
	}
	return s, nil
}

// CheckFile reads an object's file when it is asked for the first time, and again when the file was changed or
// replaced. It is for what firmware executes, which verifies nothing. The error is fs.ErrNotExist, or a
// *chunk.WrongBytesError.
func (d *Dir) CheckFile(id chunk.ID) error {
	f, err := d.Open(id)
	if err != nil {
		return err
	}
	defer f.Close()
	now, err := stampOf(f)
	if err != nil {
		return fmt.Errorf("check object %s: %w", id, bare(err))
	}
	d.verified.mu.Lock()
	defer d.verified.mu.Unlock() // while it is read too: others that want to know wait for the answer
	if d.verified.whole[id] == now {
		return nil
	}
	b, err := io.ReadAll(f)
	after, bad := stampOf(f)
	if err = errors.Join(err, bad); err != nil {
		return fmt.Errorf("check object %s: %w", id, bare(err))
	}
	delete(d.verified.whole, id)
	if err := id.Verify(b); err != nil {
		return err
	}
	if after != now {
		return nil // it is touched right now; whole as it was read, and read again next time
	}
	if d.verified.whole == nil || len(d.verified.whole) >= maxVerified {
		d.verified.whole = map[chunk.ID]stamp{}
	}
	d.verified.whole[id] = now
	return nil
}
