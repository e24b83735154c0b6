package cache

import (
	"encoding/binary"
	"hash/crc32"

	"pando/internal/chunk"
)

const (
	entrySize    = 16
	sectorHeader = 16
	perSector    = (sector - sectorHeader) / entrySize
	tableSectors = tableSize / sector
	perTable     = perSector * tableSectors
)

// entry is the position of an object in its segment.
type entry struct {
	key   uint64 // first eight bytes of its digest
	size  uint32 // stored bytes
	first uint16 // first block in the segment
	algo  chunk.Algorithm
}

func keyOf(id chunk.ID) uint64 { return binary.LittleEndian.Uint64(id.Sum[:8]) }

// blocks returns how many blocks an object of size bytes takes.
func blocks(size uint32) int { return (int(size) + block - 1) / block }

// fits reports whether the entry lies in its segment.
func (e entry) fits() bool {
	return e.algo == chunk.SHA256 && e.size > 0 && e.size <= segment && int(e.first)+blocks(e.size) <= segment/block
}

// table lists the objects of one segment. Its generation is 0 if the segment was never written.
type table struct {
	generation uint64
	entries    []entry
	whole      bool // all sectors have this generation, and all before the last used one are full
}

// encodeSector returns sector n of the table.
func (t table) encodeSector(id [16]byte, n int) []byte {
	b := make([]byte, sector)
	from := min(n*perSector, len(t.entries))
	some := t.entries[from:min(from+perSector, len(t.entries))]
	binary.LittleEndian.PutUint16(b[4:], uint16(len(some)))
	binary.LittleEndian.PutUint64(b[8:], t.generation)
	for i, e := range some {
		p := b[sectorHeader+i*entrySize:]
		binary.LittleEndian.PutUint64(p, e.key)
		binary.LittleEndian.PutUint32(p[8:], e.size)
		binary.LittleEndian.PutUint16(p[12:], e.first)
		p[14] = byte(e.algo)
	}
	binary.LittleEndian.PutUint32(b, sectorSum(id, b))
	return b
}

func (t table) encode(id [16]byte) []byte {
	b := make([]byte, 0, tableSize)
	for n := range tableSectors {
		b = append(b, t.encodeSector(id, n)...)
	}
	return b
}

// sectorSum returns the checksum of a table's sector, which covers the id of the cache too.
func sectorSum(id [16]byte, b []byte) uint32 {
	return crc32.Update(crc32.Checksum(id[:], castagnoli), castagnoli, b[4:sector])
}

// decodeTable returns the valid entries of a table. Sectors of an older generation, or of none, are ignored.
func decodeTable(id [16]byte, b []byte) table {
	var t table
	good, last := 0, 0 // valid sectors, and the last one with entries
	for n := range tableSectors {
		s := b[n*sector:][:sector]
		generation, count := binary.LittleEndian.Uint64(s[8:]), int(binary.LittleEndian.Uint16(s[4:]))
		if generation < t.generation || generation == 0 || count > perSector ||
			sectorSum(id, s) != binary.LittleEndian.Uint32(s) {
			continue
		}
		if generation > t.generation {
			t.generation, t.entries, good, last = generation, t.entries[:0], 0, 0
		}
		good++
		if count > 0 {
			last = n
		}
		for i := range count {
			p := s[sectorHeader+i*entrySize:]
			e := entry{binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint32(p[8:]),
				binary.LittleEndian.Uint16(p[12:]), chunk.Algorithm(p[14])}
			if e.fits() {
				t.entries = append(t.entries, e)
			}
		}
	}
	t.whole = good == tableSectors && len(t.entries) >= last*perSector
	return t
}

// free returns the first block after all objects of the table.
func (t table) free() int {
	free := 0
	for _, e := range t.entries {
		free = max(free, int(e.first)+blocks(e.size))
	}
	return free
}
