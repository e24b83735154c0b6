package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
	"pando/internal/blockapi"
	"pando/internal/cache"
)

// cacheState is the state of the nodes' cache disks at the beginning of a storm.
type cacheState string

const (
	noCache       cacheState = ""
	cacheEmpty    cacheState = "empty"
	cacheWarm     cacheState = "warm"      // as a storm with empty ones left them
	cacheReadOnly cacheState = "read-only" // empty, and no write succeeds
	cacheFull     cacheState = "full"      // empty, and has room for half a boot set
	cacheCorrupt  cacheState = "corrupt"   // warm, and some of its bytes are others
	cacheRemoved  cacheState = "removed"   // warm, and taken away later
)

// corruptEvery is the average distance of changed bytes: each object of more than a few blocks has one.
const corruptEvery = 32 << 10

// cacheDisks are the cache disks of a storm's nodes.
type cacheDisks struct {
	dir   string // disks that storms with empty ones have filled
	size  int64  // of each disk, in bytes
	w     int64
	files []string // disks that are removed, by node
	reads *os.File // fanotify: the kernel requests permission for each read of these; nil: no disk is removed
	asked int      // descriptor of reads; calling Fd would make it blocking
	undo  []func() error
}

// cacheDisks gives the nodes of a run their cache disks.
func (s *Storm) cacheDisks(ctx context.Context, m *testbed.Material, j job, nodes []*node) (stop func() error,
	err error) {
	d := &cacheDisks{dir: filepath.Join(s.Dir, "caches"), size: max(cache.MinSize, 2*m.Read), w: m.BootSet}
	s.disks = d
	state := findFault(j.Fault).cache
	if state == noCache {
		return d.stop, nil
	}
	dir, err := d.place(ctx, state, len(nodes))
	for i, n := range nodes {
		if err == nil {
			n.Disk, err = d.disk(state, filepath.Join(dir, strconv.Itoa(i)), i)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cache disks, %s: %w", state, err), d.stop())
	}
	return d.stop, nil
}

// place returns the directory of a run's disks.
func (d *cacheDisks) place(ctx context.Context, state cacheState, nodes int) (string, error) {
	if state == cacheEmpty {
		return d.dir, errors.Join(os.RemoveAll(d.dir), os.MkdirAll(d.dir, 0o755))
	}
	dir := d.dir + "-spoilt"
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return "", err
	}
	d.undo = append(d.undo, func() error { return os.RemoveAll(dir) })
	if state != cacheWarm && state != cacheCorrupt && state != cacheRemoved {
		return dir, nil
	}
	for i := range nodes {
		from := filepath.Join(d.dir, strconv.Itoa(i))
		if err := bench.Run(ctx, "cp", "--sparse=always", from, dir); err != nil {
			return "", fmt.Errorf("%w; --fault cache-empty fills them", err)
		}
	}
	return dir, nil
}

// disk returns the cache disk for the block daemon of a node.
func (d *cacheDisks) disk(state cacheState, path string, i int) (c *blockapi.CacheDisk, err error) {
	flags := os.O_RDWR
	switch state {
	case cacheEmpty, cacheReadOnly:
		err = format(path, d.size)
	case cacheFull:
		path, err = d.full(path)
	case cacheCorrupt:
		err = corrupt(path, d.size, rand.New(rand.NewPCG(uint64(i), 1)))
	case cacheRemoved:
		err = d.guard(path)
	}
	if err != nil {
		return nil, err
	}
	if state == cacheReadOnly {
		flags = os.O_RDONLY
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, err
	}
	d.undo = append(d.undo, f.Close)
	return &blockapi.CacheDisk{Name: filepath.Base(path), Size: d.size, File: f}, nil
}

// format makes a file with an empty cache.
func format(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), cache.Format(f, size), f.Close())
}

// corrupt changes bytes at random places of a file.
func corrupt(path string, size int64, r *rand.Rand) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for range size / corruptEvery {
		var b [1]byte
		at := r.Int64N(size)
		if _, err = f.ReadAt(b[:], at); err != nil {
			break
		}
		b[0] ^= byte(1 + r.IntN(255))
		if _, err = f.WriteAt(b[:], at); err != nil {
			break
		}
	}
	return errors.Join(err, f.Close())
}

// full makes an empty cache on its own file system, mounted below dir, with room for half of W.
func (d *cacheDisks) full(dir string) (file string, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
		return "", err
	}
	d.undo = append(d.undo, func() error { return unix.Unmount(dir, unix.MNT_DETACH) })
	file = filepath.Join(dir, filepath.Base(dir))
	if err := format(file, d.size); err != nil {
		return "", err
	}
	return file, leaveRoom(dir, d.w/2)
}

// leaveRoom limits a file system to its present content and the given number of bytes.
func leaveRoom(dir string, bytes int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return err
	}
	used := (int64(st.Blocks) - int64(st.Bfree)) * st.Bsize
	return unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d", used+bytes))
}

func (d *cacheDisks) stop() (err error) {
	if d.reads != nil {
		_ = d.reads.Close() // it may be closed already
	}
	for i := len(d.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, d.undo[i]())
	}
	d.undo = nil
	return err
}
