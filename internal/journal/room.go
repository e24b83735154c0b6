package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// makeRoom deletes what is oldest until the bounds are kept, with need bytes that are about to be written for a
// node. The error is ErrFull when nothing is left to delete and the disk has no room.
func (d *Dir) makeRoom(node string, need int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for fits := false; !fits; {
		fits = d.usage(node)+need <= d.Node || !d.drop(node)
	}
	for fits := false; !fits; {
		fits = d.total()+need <= d.Total || !d.drop(d.greediest())
	}
	for {
		free, err := freeBytes(d.Path)
		if err != nil || free-need >= d.Free {
			return err
		}
		if !d.drop(d.greediest()) {
			return fmt.Errorf("%s: %w: %d MB free, %d MB stay free", d.Path, ErrFull, free>>20, d.Free>>20)
		}
	}
}

// greediest is the node that has the most: what one node writes too much is not taken from the others.
func (d *Dir) greediest() (name string) {
	most := int64(-1)
	for node := range d.have {
		if n := d.usage(node); n > most && d.oldest(node) != "" {
			name, most = node, n
		}
	}
	return name
}

// oldest is the boot of a node that something can be deleted of: the one that was silent for longest. The newest is
// only shortened.
func (d *Dir) oldest(node string) (id string) {
	for other, b := range d.have[node] {
		if b.busy && !d.shortens(node, other) {
			continue
		}
		if len(d.have[node]) == 1 && !d.shortens(node, other) {
			continue
		}
		if id == "" || b.newest.Before(d.have[node][id].newest) {
			id = other
		}
	}
	return id
}

// shortens reports whether a boot has more than the file that is written.
func (d *Dir) shortens(node, id string) bool {
	files, err := parts(d.dir(node, id))
	return err == nil && len(files) > 1
}

// drop deletes the oldest boot of a node, or the oldest file of its only one. It is false when there is nothing to
// delete.
func (d *Dir) drop(node string) bool {
	id := d.oldest(node)
	if id == "" {
		return false
	}
	b, dir := d.have[node][id], d.dir(node, id)
	if !b.busy && len(d.have[node]) > 1 {
		delete(d.have[node], id)
		err := os.RemoveAll(dir)
		d.told("delete the journal of a boot", node, id, err)
		return err == nil
	}
	files, err := parts(dir)
	if err == nil && len(files) > 1 {
		if err = os.Remove(filepath.Join(dir, files[0].name)); err == nil {
			b.bytes -= files[0].bytes
			return true
		}
	}
	d.told("shorten the journal of a boot", node, id, err)
	return false
}

func (d *Dir) told(what, node, id string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.Log.Error(what, "node", node, "boot", id, "err", err)
	}
}

func freeBytes(path string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", path, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// shrink gives back what systemd-journal-remote has reserved at the end of a file and not used: 8 MB for the first
// line of a boot. The file stays as long as it is, with a hole, and systemd fills it.
func shrink(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Blocks*512 < st.Size {
		return err // there is a hole already
	}
	end, err := lastByte(f, st.Size)
	if err != nil {
		return err
	}
	const page = 4096
	if end = (end + page - 1) / page * page; end+shrinkLeast > st.Size {
		return nil
	}
	err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, end, st.Size-end)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil // it takes what it takes
	}
	return err
}

// shrinkLeast is how much must be gained.
const shrinkLeast = 256 << 10

// lastByte is where a file has its last byte that is not zero.
func lastByte(f *os.File, size int64) (int64, error) {
	buf := make([]byte, 128<<10)
	for at := size; at > 0; {
		n := min(at, int64(len(buf)))
		at -= n
		if _, err := f.ReadAt(buf[:n], at); err != nil {
			return 0, err
		}
		for i := n - 1; i >= 0; i-- {
			if buf[i] != 0 {
				return at + i + 1, nil
			}
		}
	}
	return 0, nil
}
