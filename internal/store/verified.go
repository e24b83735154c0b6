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

// maxVerified bounds how many verified files are remembered.
const maxVerified = 4096

// verified remembers which object files were read and matched their names.
type verified struct {
	mu    sync.Mutex
	whole map[chunk.ID]stamp
}

// stamp identifies a file's state, to notice that it was changed or replaced.
type stamp struct {
	size    int64
	inode   uint64
	modTime time.Time
	changed syscall.Timespec // change time of the inode, which, unlike the modification time, no program can set
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

// CheckFile verifies an object's file on the first call, and again if the file was changed or replaced. It is for
// files that firmware executes, because firmware verifies nothing. The error is fs.ErrNotExist or a
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
	defer d.verified.mu.Unlock() // held during the read: concurrent callers wait for the result
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
		return nil // the file is being touched: what was read is good, and the next call reads it again
	}
	if d.verified.whole == nil || len(d.verified.whole) >= maxVerified {
		d.verified.whole = map[chunk.ID]stamp{}
	}
	d.verified.whole[id] = now
	return nil
}
