package cache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Sizes of the format, in bytes.
const (
	block     = 4096    // data begins on blocks
	sector    = 512     // a disk writes it completely or not at all
	segment   = 4 << 20 // a multiple of block
	tableSize = block   // table of one segment
	superSize = 64
)

// Bounds of a cache, in bytes. The largest has 64 MiB of tables, which are read when it is opened. The rest of a larger
// area is not used.
const (
	MinSize = 64 << 20
	MaxSize = 64 << 30
)

var (
	superMagic = []byte("PNDCACHE")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// ErrNotCache means that an area holds no cache, or one that is broken at both ends.
var ErrNotCache = errors.New("not a Pando cache")

// layout has the positions of the parts of an area. It follows from the size alone.
type layout struct {
	size     int64 // of the area, a multiple of block
	segments int
}

const (
	recordsAt = 64 << 10
	tablesAt  = recordsAt + recordSlots*2*recordSize
)

func newLayout(size int64) (layout, error) {
	size = min(size-size%block, MaxSize)
	if size < MinSize {
		return layout{}, fmt.Errorf("an area of %d bytes is too small: a cache has at least %d", size, MinSize)
	}
	l := layout{size: size, segments: int(size / segment)}
	for l.dataAt()+int64(l.segments)*segment > l.copyAt() {
		l.segments--
	}
	return l, nil
}

func (l layout) tableAt(s int) int64 { return tablesAt + int64(s)*tableSize }

// dataAt returns the offset of segment 0, a multiple of a segment's size, which suits flash memory.
func (l layout) dataAt() int64 {
	return (l.tableAt(l.segments) + segment - 1) / segment * segment
}

func (l layout) segmentAt(s int) int64 { return l.dataAt() + int64(s)*segment }

// copyAt returns the offset of the second superblock. It is far from the first, which other programs tend to overwrite.
func (l layout) copyAt() int64 { return l.size - block }

// super is a superblock.
type super struct {
	id       [16]byte // the checksums of tables and records include it, so those of an earlier cache are invalid
	size     int64
	sequence uint64
}

func (s super) encode() []byte {
	b := make([]byte, block)
	copy(b, superMagic)
	binary.LittleEndian.PutUint32(b[8:], 1)
	binary.LittleEndian.PutUint32(b[12:], segment)
	copy(b[16:32], s.id[:])
	binary.LittleEndian.PutUint64(b[32:], uint64(s.size))
	binary.LittleEndian.PutUint64(b[40:], s.sequence)
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
	return b
}

// decodeSuper decodes a superblock of an area with at most limit bytes.
func decodeSuper(b []byte, limit int64) (super, error) {
	var s super
	if len(b) < superSize || !bytes.Equal(b[:8], superMagic) {
		return s, ErrNotCache
	}
	if crc32.Checksum(b[:60], castagnoli) != binary.LittleEndian.Uint32(b[60:]) {
		return s, fmt.Errorf("%w: wrong checksum", ErrNotCache)
	}
	if f, seg := binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:]); f != 1 || seg != segment {
		return s, fmt.Errorf("%w: unknown format %d with segments of %d bytes", ErrNotCache, f, seg)
	}
	copy(s.id[:], b[16:32])
	s.sequence = binary.LittleEndian.Uint64(b[40:])
	size := binary.LittleEndian.Uint64(b[32:])
	if size > uint64(limit) {
		return s, fmt.Errorf("%w: it was made for %d bytes, the area has %d", ErrNotCache, size, limit)
	}
	s.size = int64(size)
	return s, nil
}
