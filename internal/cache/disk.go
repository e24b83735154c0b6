package cache

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"
	"sync/atomic"

	"pando/internal/chunk"
)

// Area is the storage of a cache: a block device, a part of one, or a file.
type Area interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
}

// Options says how a Disk is used. Zero values mean the defaults.
type Options struct {
	Size     int64             // bytes of the area that are written; 0: all; the rest stays readable
	ReadOnly bool              // nothing is written
	Failed   func(err error)   // called when the disk is no longer written, and when it is no longer read
	Proofs   chunk.FastDigests // fast digests of objects that may be requested
	Damaged  func(id chunk.ID) // called with each object whose bytes are wrong
}

// Disk is a cache in an area. It is safe for concurrent use. After a failed write it accepts no objects. It can still
// be read until several reads fail too.
type Disk struct {
	dev    Area
	super  super
	layout layout
	opts   Options
	limit  int // number of segments that are written

	writing sync.Mutex // held while writing; locked before mu
	open    openSegment

	mu          sync.Mutex
	dir         directory
	generations []uint64 // generation of each segment
	newest      uint64
	unwritable  error
	unreadable  error

	bad, misread atomic.Int64
}

// mostMisread is how many reads may fail before the disk is given up. One bad sector does not make a bad disk, but a
// disk that is gone must not delay each object.
const mostMisread = 4

var errReadOnly = errors.New("the disk is read-only")

// Format makes an area an empty cache. Its former contents are lost, though most of them are not overwritten. An area
// is a ring of segments; an object that was read recently is written again before its segment is overwritten.
func Format(a Area, size int64) error {
	l, err := newLayout(size)
	if err != nil {
		return fmt.Errorf("make a cache: %w", err)
	}
	s := super{size: l.size, sequence: 1}
	rand.Read(s.id[:])
	// The old superblocks are erased first: sequence numbers of different caches cannot be compared.
	for _, b := range [][]byte{make([]byte, block), s.encode()} {
		for _, at := range []int64{0, l.copyAt()} {
			if _, err := a.WriteAt(b, at); err != nil {
				return fmt.Errorf("make a cache: %w", err)
			}
		}
		if err := a.Sync(); err != nil {
			return fmt.Errorf("make a cache: %w", err)
		}
	}
	return nil
}

// Open reads the tables of the cache in an area of size bytes. The error is ErrNotCache if there is none.
func Open(a Area, size int64, o Options) (*Disk, error) {
	d, err := open(a, size, o)
	if err == nil {
		d.limit = d.layout.segments
		if o.Size > 0 {
			d.limit = int(min(int64(d.limit), max(o.Size, MinSize)/segment))
		}
		err = d.load()
	}
	if err != nil {
		return nil, fmt.Errorf("open the cache: %w", err)
	}
	return d, nil
}

// open returns a disk of which only the superblock was read.
func open(a Area, size int64, o Options) (*Disk, error) {
	d := &Disk{dev: a, opts: o}
	if d.opts.Failed == nil {
		d.opts.Failed = func(error) {}
	}
	if d.opts.Damaged == nil {
		d.opts.Damaged = func(chunk.ID) {}
	}
	if o.ReadOnly {
		d.unwritable = errReadOnly
	}
	var err error
	if d.super, err = readSuper(a, size); err == nil {
		d.layout, err = newLayout(d.super.size)
	}
	return d, err
}

// readSuper returns the newer of the two superblocks.
func readSuper(a Area, size int64) (super, error) {
	var best super
	var errs []error
	l, err := newLayout(size)
	if err != nil {
		return best, fmt.Errorf("%w: %w", ErrNotCache, err)
	}
	for _, at := range []int64{0, l.copyAt()} {
		b := make([]byte, superSize)
		_, err := a.ReadAt(b, at)
		var s super
		if err == nil {
			s, err = decodeSuper(b, l.size)
		}
		if err == nil && s.sequence > best.sequence {
			best = s
		}
		errs = append(errs, err)
	}
	if best.sequence == 0 {
		return best, errors.Join(errs...)
	}
	return best, nil
}

// loadStep is how many tables are read at a time: a mebibyte.
const loadStep = 256

// load reads the tables and adds the newest first, so that an object that is there twice is found where it was written
// last.
func (d *Disk) load() error {
	tables := make([]table, 0, d.layout.segments)
	for from := 0; from < d.layout.segments; from += loadStep {
		n := min(loadStep, d.layout.segments-from)
		b := make([]byte, n*tableSize)
		if _, err := d.dev.ReadAt(b, d.layout.tableAt(from)); err != nil {
			return fmt.Errorf("tables: %w", err)
		}
		for i := range n {
			tables = append(tables, decodeTable(d.super.id, b[i*tableSize:][:tableSize]))
		}
	}
	order := make([]int, len(tables))
	d.generations = make([]uint64, len(tables))
	for s, t := range tables {
		order[s], d.generations[s] = s, t.generation
	}
	// sort.Slice is in a node's program already; slices.SortFunc would be compiled for this type alone.
	sort.Slice(order, func(i, j int) bool { return d.generations[order[i]] > d.generations[order[j]] })
	newest := order[0]
	d.newest, d.open = d.generations[newest], openSegment{segment: -1}
	if d.newest > 0 {
		d.open = resume(newest, tables[newest], d.limit)
	}
	for _, s := range order {
		for _, e := range tables[s].entries {
			if _, there := d.dir.get(e.key); !there && !d.dir.full() {
				d.dir.put(e.place(s))
			}
		}
	}
	return nil
}

func (e entry) place(s int) place {
	return place{e.key, uint32(s)*(segment/block) + uint32(e.first), e.size}
}

// Get returns an object whose bytes were verified, if the cache has it. size is its stored bytes; 0: not known.
func (d *Disk) Get(id chunk.ID, size int64) (chunk.Verified, bool) {
	key := keyOf(id)
	d.mu.Lock()
	p, ok := d.dir.get(key)
	ok = ok && d.unreadable == nil && (size == 0 || size == int64(p.size))
	d.mu.Unlock()
	if !ok {
		return chunk.Verified{}, false
	}
	b := make([]byte, p.size)
	if _, err := d.dev.ReadAt(b, d.layout.dataAt()+int64(p.block)*block); err != nil {
		if d.misread.Add(1) >= mostMisread {
			d.fail(&d.unreadable, fmt.Errorf("the cache is no longer used: read: %w", err))
		}
		return chunk.Verified{}, false
	}
	v, err := d.opts.Proofs.Check(id, b)
	if err == nil {
		return v, true
	}
	d.mu.Lock()
	now, ok := d.dir.get(key)
	damaged := ok && now == p // otherwise it was overwritten meanwhile, which is no damage
	if damaged {
		d.dir.drop(p)
	}
	d.mu.Unlock()
	if damaged {
		d.bad.Add(1)
		d.opts.Damaged(id)
	}
	return chunk.Verified{}, false
}

// Has reports whether the tables of the cache list an object.
func (d *Disk) Has(id chunk.ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.dir.get(keyOf(id))
	return ok && d.unreadable == nil
}

// Wants reports whether an object should be put: it is not there, or so old that it will be overwritten soon.
func (d *Disk) Wants(id chunk.ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok := d.dir.get(keyOf(id))
	// Objects written in the last half of the ring's round are recent.
	return d.unwritable == nil && (!ok || d.generations[p.block/(segment/block)]+uint64(d.limit/2) < d.newest)
}

// Stats are the figures of a cache.
type Stats struct {
	Size    int64 // bytes of the area that are used
	Objects int   // number of objects
	Bad     int64 // objects with wrong bytes since Open
}

// Stats returns the present figures.
func (d *Disk) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Stats{int64(d.limit) * segment, d.dir.used, d.bad.Load()}
}

// Err returns why the cache accepts no objects, or nil if it does.
func (d *Disk) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unwritable
}

// fail ends writing, or all use, of the disk. A disk that cannot be read is not written either.
func (d *Disk) fail(what *error, err error) {
	d.mu.Lock()
	first := *what == nil && d.unreadable == nil
	if first {
		*what = err
		if d.unwritable == nil {
			d.unwritable = err
		}
	}
	d.mu.Unlock()
	if first {
		d.opts.Failed(err)
	}
}
