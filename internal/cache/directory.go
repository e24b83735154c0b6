package cache

// place is the position of an object on the disk.
type place struct {
	key   uint64 // first eight bytes of its digest, which are as good as random
	block uint32 // counted over all segments
	size  uint32 // stored bytes; 0: this slot is free
}

// maxSlots is the most slots of a directory, at 16 bytes each. When seven eighths are used, the oldest segments are
// dropped even if the disk has room: a node's memory is worth more.
const maxSlots = 1 << 19

// directory finds objects by key. It is a table with open addressing, because a map takes three times the memory.
type directory struct {
	slots []place
	used  int
}

func (d *directory) home(key uint64) int { return int(key>>8) & (len(d.slots) - 1) }

// find returns the slot of key, or the free slot where it belongs.
func (d *directory) find(key uint64) int {
	i := d.home(key)
	for d.slots[i].size != 0 && d.slots[i].key != key {
		i = (i + 1) & (len(d.slots) - 1)
	}
	return i
}

func (d *directory) get(key uint64) (place, bool) {
	if d.used == 0 {
		return place{}, false
	}
	p := d.slots[d.find(key)]
	return p, p.size != 0
}

// full reports that there may be no room for the objects of more than one segment.
func (d *directory) full() bool { return d.used >= maxSlots/8*7-perTable }

// put adds p, and replaces an entry with the same key.
func (d *directory) put(p place) {
	if d.used >= len(d.slots)/8*7 {
		d.grow()
	}
	i := d.find(p.key)
	if d.slots[i].size == 0 {
		d.used++
	}
	d.slots[i] = p
}

func (d *directory) grow() {
	old := d.slots
	d.slots = make([]place, max(1024, 2*len(old)))
	for _, p := range old {
		if p.size != 0 {
			d.slots[d.find(p.key)] = p
		}
	}
}

// drop removes p, unless its key has another position now.
func (d *directory) drop(p place) {
	if d.used == 0 {
		return
	}
	if i := d.find(p.key); d.slots[i] == p {
		d.remove(i)
	}
}

// remove frees slot i, and moves entries behind it that were displaced by it.
func (d *directory) remove(i int) {
	mask := len(d.slots) - 1
	d.used--
	for j := (i + 1) & mask; d.slots[j].size != 0; j = (j + 1) & mask {
		if (j-d.home(d.slots[j].key))&mask >= (j-i)&mask {
			d.slots[i] = d.slots[j]
			i = j
		}
	}
	d.slots[i] = place{}
}

// dropRange removes the objects in blocks [from, to).
func (d *directory) dropRange(from, to uint32) {
	for i := range d.slots {
		for p := d.slots[i]; p.size != 0 && from <= p.block && p.block < to; p = d.slots[i] {
			d.remove(i)
		}
	}
}
