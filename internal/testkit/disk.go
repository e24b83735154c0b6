package testkit

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Fault is the kind of failure of a Disk.
type Fault string

// The faults. After Kill and Cut all operations fail, because the process has ended.
const (
	Refuse Fault = "refuse" // one operation fails, the next ones work
	Full   Fault = "full"   // from then on whatever takes room fails; what was being written is there in half
	Kill   Fault = "kill"   // the process is gone, in the middle of the operation
	Cut    Fault = "cut"    // the power is gone, and with it what was not synced
)

// ErrKilled is the error of operations after the process was killed.
var ErrKilled = errors.New("killed")

// Disk is a store.Disk that fails at a chosen operation. It models which names and bytes would survive a power cut. Of
// unsynced changes of names, a random number of the first ones survives in each directory. Of unsynced bytes a part
// survives, or nothing.
type Disk struct {
	mu    sync.Mutex
	count int
	at    int // number of the operation that fails; 0: none
	fault Fault
	gone  bool

	now, durable map[string]*fileBytes // by path, for paths that were used; nil: the file does not exist
	pending      []nameChange
}

type fileBytes struct {
	now, durable []byte
	dirty        bool
}

// nameChange is a change of names that is not yet synced.
type nameChange struct {
	dirs  []string
	apply func(names map[string]*fileBytes)
}

// NewDisk returns a disk whose at-th operation fails, counted from 1; 0: no operation fails.
func NewDisk(fault Fault, at int) *Disk {
	return &Disk{fault: fault, at: at, now: map[string]*fileBytes{}, durable: map[string]*fileBytes{}}
}

// Operations returns how many operations there were.
func (d *Disk) Operations() int { return d.count }

// step counts an operation and returns its error. half means that the operation must write half of its data before it
// fails.
func (d *Disk) step(takesRoom bool) (half bool, err error) {
	d.count++
	switch {
	case d.gone:
		return false, ErrKilled
	case d.at == 0 || d.count < d.at:
		return false, nil
	case d.fault == Full && takesRoom:
		return d.count == d.at, unix.ENOSPC
	case d.fault == Refuse && d.count == d.at:
		return false, unix.EIO
	case d.fault == Kill || d.fault == Cut:
		d.gone = true
		return true, ErrKilled
	}
	return false, nil
}

// file returns the model of a file. It reads the file at the first use.
func (d *Disk) file(path string) *fileBytes {
	if _, ok := d.now[path]; !ok {
		var f *fileBytes
		if b, err := os.ReadFile(path); err == nil {
			f = &fileBytes{now: b, durable: b}
		}
		d.now[path], d.durable[path] = f, f
	}
	return d.now[path]
}

func (d *Disk) change(apply func(map[string]*fileBytes), paths ...string) {
	c := nameChange{apply: apply}
	for _, p := range paths {
		c.dirs = append(c.dirs, filepath.Dir(p))
	}
	apply(d.now)
	d.pending = append(d.pending, c)
}

// WriteFile writes a file. When the disk becomes full or the process is killed, it writes half of the data.
func (d *Disk) WriteFile(name string, data []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	half, err := d.step(true)
	if err != nil && !half {
		return err
	}
	if half {
		data = data[:len(data)/2]
	}
	if f := d.file(name); f != nil {
		f.now, f.dirty = slices.Clone(data), true
	} else {
		f = &fileBytes{now: slices.Clone(data), dirty: true}
		d.change(func(names map[string]*fileBytes) { names[name] = f }, name)
	}
	return errors.Join(err, os.WriteFile(name, data, 0o644))
}

// Rename moves a file.
func (d *Disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step(false); err != nil {
		return err
	}
	f := d.file(from)
	d.file(to)
	if err := os.Rename(from, to); err != nil {
		return err
	}
	d.change(func(names map[string]*fileBytes) { names[from], names[to] = nil, f }, from, to)
	return nil
}

// Remove removes a file.
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step(false); err != nil {
		return err
	}
	d.file(name)
	if err := os.Remove(name); err != nil {
		return err
	}
	d.change(func(names map[string]*fileBytes) { names[name] = nil }, name)
	return nil
}

// Mkdir makes a directory. Directories survive every fault, because the model has only files.
func (d *Disk) Mkdir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step(true); err != nil {
		return err
	}
	return os.Mkdir(name, 0o755)
}

// Touch sets the time of a file.
func (d *Disk) Touch(name string, at time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step(false); err != nil {
		return err
	}
	return os.Chtimes(name, at, at)
}

// Sync makes the bytes of a file durable, or the names in a directory.
func (d *Disk) Sync(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step(false); err != nil {
		return err
	}
	if info, err := os.Stat(name); err != nil || !info.IsDir() {
		if f := d.file(name); f != nil {
			f.durable, f.dirty = f.now, false
		}
		return err
	}
	d.pending = slices.DeleteFunc(d.pending, func(c nameChange) bool {
		mine := slices.Contains(c.dirs, name)
		if mine {
			c.apply(d.durable)
		}
		return mine
	})
	return nil
}

// SyncFS makes all files and names durable.
func (d *Disk) SyncFS(string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step(false); err != nil {
		return err
	}
	for _, c := range d.pending {
		c.apply(d.durable)
	}
	d.pending = nil
	for _, f := range d.now {
		if f != nil {
			f.durable, f.dirty = f.now, false
		}
	}
	return nil
}

// survive makes a random number of unsynced changes of names durable: in each directory the first ones.
func (d *Disk) survive(random *rand.Rand) {
	left := map[string]int{}
	for _, c := range d.pending {
		left[c.dirs[len(c.dirs)-1]]++
	}
	for _, dir := range slices.Sorted(maps.Keys(left)) {
		left[dir] = random.IntN(left[dir] + 1)
	}
	for _, c := range d.pending {
		dir := c.dirs[len(c.dirs)-1]
		if left[dir]--; left[dir] >= 0 {
			c.apply(d.durable)
		}
	}
	d.pending = nil
}

// PowerCut changes the real files to what is there after a power cut: some of the first unsynced changes of names, and
// any part of unsynced bytes. random decides which.
func (d *Disk) PowerCut(random *rand.Rand) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.survive(random)
	var err error
	for _, path := range slices.Sorted(maps.Keys(d.durable)) {
		f := d.durable[path]
		if f == nil {
			if e := os.Remove(path); !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
			continue
		}
		b := f.now
		if f.dirty {
			b = [][]byte{f.now, f.durable, f.now[:random.IntN(len(f.now)+1)], make([]byte, len(f.now))}[random.IntN(4)]
		}
		err = errors.Join(err, os.WriteFile(path, b, 0o644))
	}
	return err
}
