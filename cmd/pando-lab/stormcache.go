package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/boot"
	"pando/internal/cache"
)

// cacheState is how the cache disks of the nodes are when a storm begins.
type cacheState string

const (
	noCache       cacheState = ""
	cacheEmpty    cacheState = "empty"
	cacheWarm     cacheState = "warm"      // as a storm with empty ones left them
	cacheReadOnly cacheState = "read-only" // empty, and no write succeeds
	cacheFull     cacheState = "full"      // empty, and has room for half a boot set
	cacheCorrupt  cacheState = "corrupt"   // warm, and some of its bytes are others
	cacheLoop     cacheState = "loop"      // warm, and on a block device that can be taken away
)

// corruptEvery is how far apart the bytes are that are changed, on average: each object of more than a few blocks has one.
const corruptEvery = 32 << 10

// cacheDisks are the disks of a storm's nodes.
type cacheDisks struct {
	dir   string // of those that storms with empty ones filled
	size  int64  // of each
	w     int64
	loops []string // devices, by node
	files []string // what is behind them
	undo  []func() error
}

// cacheDisks gives the nodes of a run their disks.
func (s *storm) cacheDisks(ctx context.Context, m *material, j job, nodes []*node) (stop func() error, err error) {
	d := &cacheDisks{dir: filepath.Join(s.dir, "caches"), size: max(cache.MinSize, 2*m.read), w: m.bootSet}
	s.disks = d
	state := findFault(j.Fault).cache
	if state == noCache {
		return d.stop, nil
	}
	dir, err := d.place(ctx, state, len(nodes))
	for i, n := range nodes {
		if err == nil {
			n.disk, err = d.disk(ctx, state, filepath.Join(dir, strconv.Itoa(i)), i)
		}
	}
	if err == nil && state == cacheFull {
		err = leaveRoom(dir, int64(len(nodes))*d.w/2)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cache disks, %s: %w", state, err), d.stop())
	}
	return d.stop, nil
}

// place is the directory of a run's disks.
func (d *cacheDisks) place(ctx context.Context, state cacheState, nodes int) (string, error) {
	if state == cacheEmpty {
		return d.dir, errors.Join(os.RemoveAll(d.dir), os.MkdirAll(d.dir, 0o755))
	}
	dir := d.dir + "-spoilt"
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return "", err
	}
	d.undo = append(d.undo, func() error { return os.RemoveAll(dir) })
	switch state {
	case cacheFull:
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			return "", err
		}
		d.undo = append(d.undo, func() error { return unix.Unmount(dir, unix.MNT_DETACH) })
	case cacheWarm, cacheCorrupt, cacheLoop:
		for i := range nodes {
			from := filepath.Join(d.dir, strconv.Itoa(i))
			if err := says(exec.CommandContext(ctx, "cp", "--sparse=always", from, dir)); err != nil {
				return "", fmt.Errorf("%w; --fault cache-empty fills them", err)
			}
		}
	}
	return dir, nil
}

// disk is what the block daemon of a node gets.
func (d *cacheDisks) disk(ctx context.Context, state cacheState, path string, i int) (c *boot.CacheDisk, err error) {
	flags := os.O_RDWR
	switch state {
	case cacheEmpty, cacheFull, cacheReadOnly:
		err = format(path, d.size)
	case cacheCorrupt:
		err = corrupt(path, d.size, rand.New(rand.NewPCG(uint64(i), 1)))
	case cacheLoop:
		path, err = d.loop(ctx, path)
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
	return &boot.CacheDisk{Name: filepath.Base(path), Size: d.size, File: f}, nil
}

// format makes a file an empty cache.
func format(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), cache.Format(f, size), f.Close())
}

// corrupt changes bytes of a file, anywhere.
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

// leaveRoom bounds a file system to what is in it and so many bytes more.
func leaveRoom(dir string, bytes int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return err
	}
	used := (int64(st.Blocks) - int64(st.Bfree)) * st.Bsize
	return unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d", used+bytes))
}

// loop makes a block device of a file.
func (d *cacheDisks) loop(ctx context.Context, file string) (device string, err error) {
	out, err := exec.CommandContext(ctx, "losetup", "--find", "--show", file).Output()
	if err != nil {
		return "", fmt.Errorf("losetup %s: %w", file, err)
	}
	device = strings.TrimSpace(string(out))
	d.loops, d.files = append(d.loops, device), append(d.files, file)
	d.undo = append(d.undo, func() error { return says(exec.Command("losetup", "--detach", device)) })
	return device, nil
}

// remove takes the disks away, as their daemons see it: there is nothing to read, and nowhere to write.
func (d *cacheDisks) remove() (err error) {
	for i, device := range d.loops {
		err = errors.Join(err, os.Truncate(d.files[i], 0), says(exec.Command("losetup", "--set-capacity", device)),
			says(exec.Command("blockdev", "--flushbufs", device)))
	}
	return err
}

func (d *cacheDisks) stop() (err error) {
	for i := len(d.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, d.undo[i]())
	}
	d.undo = nil
	return err
}

// says runs a program; its error has what the program said.
func says(c *exec.Cmd) error {
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
