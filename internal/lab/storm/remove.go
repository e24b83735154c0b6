package storm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
)

// A daemon reads a warm cache to its end as fast as the disk gives it, a small one in a hundredth of a second, and
// does not need it any more long before its boot is over. So there is no moment of a storm that is right for all
// nodes, and none that whoever looks finds in time: the kernel asks before each read.

// removedPart is the part of W that a node has read from its disk when that is taken away.
const removedPart = 4

// guard has the kernel ask before a file is read that is opened after this.
func (d *cacheDisks) guard(file string) (err error) {
	if d.reads == nil {
		if d.asked, err = unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK,
			unix.O_RDONLY|unix.O_CLOEXEC); err != nil {
			return fmt.Errorf(
				"be asked before disks are read: %w (has this kernel CONFIG_FANOTIFY_ACCESS_PERMISSIONS?)",
				err,
			)
		}
		d.reads = os.NewFile(uintptr(d.asked), "reads of cache disks")
	}
	if err := unix.FanotifyMark(d.asked, unix.FAN_MARK_ADD, unix.FAN_ACCESS_PERM, unix.AT_FDCWD, file); err != nil {
		return fmt.Errorf("be asked before %s is read: %w", file, err)
	}
	d.files = append(d.files, file)
	return nil
}

// removal is how far it is with a node's disk.
type removal struct {
	mu   sync.Mutex
	gone bool
	err  error
}

// removeAll takes the disk of each node away before a read, when its daemon has read a part of W from it. The
// timeline tells of who never came so far.
func (d *cacheDisks) removeAll(ctx context.Context, nodes []*node) (err error) {
	defer d.reads.Close() // whoever still asks may read
	defer context.AfterFunc(ctx, func() { d.reads.Close() })()
	disks := make([]removal, len(nodes))
	var left atomic.Int64
	left.Store(int64(len(nodes)))
	var asking sync.WaitGroup
	for left.Load() > 0 {
		i, allow, wrong := d.nextRead()
		if errors.Is(wrong, os.ErrClosed) {
			break // it is over
		}
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("wait for a read of a cache disk: %w", wrong))
			if allow != nil {
				allow()
			}
			break
		}
		asking.Go(func() {
			defer allow()
			if disks[i].before(func() bool { return nodes[i].fromDisk(ctx) >= d.w/removedPart }, d.files[i]) &&
				left.Add(-1) == 0 {
				d.reads.Close()
			}
		})
	}
	asking.Wait()
	for i := range disks {
		err = errors.Join(err, disks[i].err)
	}
	return err
}

// before is called before a read, and tells whether it took the file away: there is nothing to read any more, as of
// a disk that is gone.
func (r *removal) before(due func() bool, file string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone || !due() {
		return false
	}
	r.gone, r.err = true, os.Truncate(file, 0)
	return true
}

// nextRead waits until somebody wants to read one of the files, and returns what lets him.
func (d *cacheDisks) nextRead() (i int, allow func(), err error) {
	b := make([]byte, unix.FAN_EVENT_METADATA_LEN) // room for one
	if _, err := d.reads.Read(b); err != nil {
		return 0, nil, err
	}
	var e unix.FanotifyEventMetadata
	if _, err := binary.Decode(b, binary.NativeEndian, &e); err != nil {
		return 0, nil, err
	}
	f := os.NewFile(uintptr(e.Fd), "what is read")
	st, err := f.Stat()
	i = slices.IndexFunc(d.files, func(file string) bool {
		its, err := os.Stat(file)
		return err == nil && os.SameFile(st, its)
	})
	if err == nil && i < 0 {
		err = errors.New("a read of a file that is no cache disk")
	}
	return i, func() {
		answer, _ := binary.Append(
			nil,
			binary.NativeEndian,
			unix.FanotifyResponse{Fd: e.Fd, Response: unix.FAN_ALLOW},
		) // it has a size
		_, _ = d.reads.Write(
			answer,
		) // when that is closed, all is allowed
		f.Close()
	}, err
}

// fromDisk is how many bytes of objects a node's daemon has from its disk; 0 while there is none.
func (n *node) fromDisk(ctx context.Context) int64 {
	daemon := blockapi.Client{Socket: filepath.Join(n.Dir, blockapi.Socket)}
	st, _ := daemon.Status(ctx, 0)
	return st.Bytes["disk"]
}
