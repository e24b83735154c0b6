package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// makeRoom deletes the oldest journals until the limits hold with `need` more bytes for a node. It returns ErrFull if
// nothing is left to delete and the disk is still too full.
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
			return fmt.Errorf("%s: %w: %d MB are free, %d MB must stay free", d.Path, ErrFull, free>>20, d.Free>>20)
		}
	}
}

// greediest returns the node with the most bytes, so that a node that logs too much does not displace others' journals.
func (d *Dir) greediest() (name string) {
	most := int64(-1)
	for node := range d.have {
		if n := d.usage(node); n > most && d.oldest(node) != "" {
			name, most = node, n
		}
	}
	return name
}

// oldest returns the boot of a node that was silent for longest and of which something can be deleted. A boot that is
// written, or is the node's only one, can only lose its older files.
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

// shortens reports whether a boot has more files than the one that is written.
func (d *Dir) shortens(node, id string) bool {
	files, err := parts(d.dir(node, id))
	return err == nil && len(files) > 1
}

// drop deletes the oldest boot of a node, or the oldest file of its only boot. It returns false if nothing can be
// deleted.
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

// shrink frees the space that systemd-journal-remote has reserved at the end of a file and not used: 8 MB for the first
// line of a boot. The file keeps its length, with a hole that systemd fills later.
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
		return nil // the file system has no holes
	}
	return err
}

// shrinkLeast is the least gain, in bytes, for which shrink does anything.
const shrinkLeast = 256 << 10

// lastByte returns the offset after the last non-zero byte of a file.
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
