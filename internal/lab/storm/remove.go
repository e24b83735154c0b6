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

// A daemon reads a warm cache as fast as the disk allows, and no longer needs it long before its boot is over. No
// moment fits all nodes, and polling would miss it. So the kernel requests permission for each read (fanotify(7)).

// removedPart: a disk is removed after its node has read W/removedPart from it.
const removedPart = 4

// guard makes the kernel request permission for reads of a file that is opened after this call.
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

// removal is the state of the removal of a node's disk.
type removal struct {
	mu   sync.Mutex
	gone bool
	err  error
}

// removeAll removes the disk of each node before a read, once the node's daemon has read enough from it. A node that
// never reads that much lacks the incident on its timeline.
func (d *cacheDisks) removeAll(ctx context.Context, nodes []*node) (err error) {
	defer d.reads.Close() // closing permits all pending reads
	defer context.AfterFunc(ctx, func() { d.reads.Close() })()
	disks := make([]removal, len(nodes))
	var left atomic.Int64
	left.Store(int64(len(nodes)))
	var asking sync.WaitGroup
	for left.Load() > 0 {
		i, allow, wrong := d.nextRead()
		if errors.Is(wrong, os.ErrClosed) {
			break // the storm is over
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

// before is called before a read, and reports whether it removed the disk. A removed file is empty: reads fail as from
// a missing disk.
func (r *removal) before(due func() bool, file string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone || !due() {
		return false
	}
	r.gone, r.err = true, os.Truncate(file, 0)
	return true
}

// nextRead waits for a read of one of the files. The read continues when allow is called.
func (d *cacheDisks) nextRead() (i int, allow func(), err error) {
	b := make([]byte, unix.FAN_EVENT_METADATA_LEN) // room for one event
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
		) // a value of fixed size
		_, _ = d.reads.Write(
			answer,
		) // a closed descriptor permits all reads
		f.Close()
	}, err
}

// fromDisk returns how many bytes of objects a node's daemon has read from its disk, 0 if there is no daemon.
func (n *node) fromDisk(ctx context.Context) int64 {
	daemon := blockapi.Client{Socket: filepath.Join(n.Dir, blockapi.Socket)}
	st, _ := daemon.Status(ctx, 0)
	return st.Bytes["disk"]
}
