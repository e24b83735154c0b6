package cache

import (
	"fmt"

	"pando/internal/chunk"
)

// openSegment is the segment that is being written.
type openSegment struct {
	segment int // -1: none was written yet
	table   table
	next    int // next free block
	clean   int // number of entries that the table on the disk has
	pending int // bytes of data since the table was written
	closed  bool
}

// tableAfter is how many bytes of data are written before the table is. A power cut can lose so much.
const tableAfter = 1 << 20

// resume continues a segment that an earlier boot began. A segment with a damaged table, or beyond the limit, is
// closed.
func resume(s int, t table, limit int) openSegment {
	return openSegment{segment: s, table: t, next: t.free(), clean: len(t.entries), closed: !t.whole || s >= limit}
}

// Put writes an object, unless the cache has it and will keep it. It waits for the disk, so call it in the background.
// An object that could not be found again is no error; a disk that fails is one.
func (d *Disk) Put(v chunk.Verified) error {
	size := len(v.Stored())
	if size == 0 || size > segment || v.ID().Algorithm != chunk.SHA256 {
		return nil
	}
	d.writing.Lock()
	defer d.writing.Unlock()
	if err := d.Err(); err != nil {
		return err
	}
	if !d.Wants(v.ID()) {
		return nil
	}
	o := &d.open
	if o.segment < 0 || o.closed || o.next+blocks(uint32(size)) > segment/block || len(o.table.entries) >= perTable {
		if err := d.advance(); err != nil {
			return err
		}
	}
	e := entry{keyOf(v.ID()), uint32(size), uint16(o.next), chunk.SHA256}
	padded := append(make([]byte, 0, blocks(e.size)*block), v.Stored()...)[:blocks(e.size)*block]
	if err := d.write(padded, d.layout.segmentAt(o.segment)+int64(o.next)*block); err != nil {
		return err
	}
	o.table.entries = append(o.table.entries, e)
	o.next += blocks(e.size)
	o.pending += len(padded)
	d.mu.Lock()
	d.dir.put(e.place(o.segment))
	d.mu.Unlock()
	if o.pending >= tableAfter {
		return d.flush()
	}
	return nil
}

// Sync returns when all objects put so far are on the disk and can be found there.
func (d *Disk) Sync() error {
	d.writing.Lock()
	defer d.writing.Unlock()
	if err := d.Err(); err != nil {
		return err
	}
	if err := d.flush(); err != nil {
		return err
	}
	return d.sync()
}

// flush writes the table of the open segment, after its data. The caller holds writing.
func (d *Disk) flush() error {
	o := &d.open
	if o.segment < 0 || o.clean == len(o.table.entries) {
		return nil
	}
	if err := d.sync(); err != nil {
		return err
	}
	for n := o.clean / perSector; n*perSector < len(o.table.entries); n++ {
		if err := d.write(o.table.encodeSector(d.super.id, n),
			d.layout.tableAt(o.segment)+int64(n)*sector); err != nil {
			return err
		}
	}
	o.clean, o.pending = len(o.table.entries), 0
	return nil
}

// advance finishes the open segment and begins the one written longest ago. It removes the old objects from memory,
// then empties the table, and then allows new data. The caller holds writing.
func (d *Disk) advance() error {
	if err := d.flush(); err != nil {
		return err
	}
	next := d.open.segment + 1
	if next >= d.limit {
		next = 0
	}
	d.mu.Lock()
	d.newest++
	generation := d.newest
	d.generations[next] = generation
	const per = segment / block
	d.dir.dropRange(uint32(next)*per, uint32(next+1)*per)
	for s := next + 1; d.dir.full() && s < next+d.layout.segments; s++ { // the directory is full before the disk is
		old := uint32(s % d.layout.segments)
		d.dir.dropRange(old*per, (old+1)*per)
	}
	d.mu.Unlock()
	d.open = openSegment{segment: next, table: table{generation: generation, whole: true}}
	if err := d.write(d.open.table.encode(d.super.id), d.layout.tableAt(next)); err != nil {
		return err
	}
	return d.sync()
}

func (d *Disk) write(b []byte, at int64) error {
	if _, err := d.dev.WriteAt(b, at); err != nil {
		err = fmt.Errorf("the cache is no longer written: write: %w", err)
		d.fail(&d.unwritable, err)
		return err
	}
	return nil
}

func (d *Disk) sync() error {
	if err := d.dev.Sync(); err != nil {
		err = fmt.Errorf("the cache is no longer written: sync: %w", err)
		d.fail(&d.unwritable, err)
		return err
	}
	return nil
}
