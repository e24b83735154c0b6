package bootpack

import (
	"encoding/binary"
	"fmt"
	"iter"

	"pando/internal/chunk"
)

// Placed yields each extent with the index of its piece, in order. Extents are split where a piece ends. The map must
// be valid.
func (p Map) Placed() iter.Seq2[int, Extent] {
	return func(yield func(int, Extent) bool) {
		piece, left := -1, uint32(0)
		for _, e := range p.Extents {
			for e.Blocks > 0 {
				if left == 0 {
					piece++
					left = uint32(p.Pieces[piece].RawSize / chunk.BlockSize)
				}
				n := min(left, e.Blocks)
				if !yield(piece, Extent{e.Start, n}) {
					return
				}
				if !e.Unused() {
					e.Start += n
				}
				e.Blocks, left = e.Blocks-n, left-n
			}
		}
	}
}

// AppendExtent appends an extent, or extends the last one if e continues it.
func AppendExtent(to []Extent, e Extent) []Extent {
	if last := len(to) - 1; last >= 0 && e.follows(to[last]) {
		to[last].Blocks += e.Blocks
		return to
	}
	return append(to, e)
}

// appendExtents encodes the extents. In formatShared the number of blocks comes first, and its lowest bit marks an
// unused extent, which has no start.
func (p Map) appendExtents(b []byte) []byte {
	shared, end := p.format() == formatShared, int64(0)
	for _, e := range p.Extents {
		switch {
		case e.Unused():
			b = binary.AppendUvarint(b, uint64(e.Blocks)<<1|1)
			continue
		case shared:
			b = binary.AppendUvarint(b, uint64(e.Blocks)<<1)
			b = binary.AppendVarint(b, int64(e.Start)-end)
		default:
			b = binary.AppendVarint(b, int64(e.Start)-end)
			b = binary.AppendUvarint(b, uint64(e.Blocks))
		}
		end = int64(e.End())
	}
	return b
}

// decodeExtents is the inverse of appendExtents. Values beyond 32 bits encode differently, so the comparison in
// Decode rejects them.
func decodeExtents(data []byte, n int, shared bool) ([]Extent, error) {
	extents := make([]Extent, n)
	end := int64(0)
	r := varints{data: data}
	for i := range extents {
		var e Extent
		if shared {
			blocks := r.unsigned()
			e.Start, e.Blocks = UnusedBlock, uint32(blocks>>1)
			if blocks&1 == 0 {
				e.Start = uint32(end + r.signed())
			}
		} else {
			e.Start = uint32(end + r.signed())
			e.Blocks = uint32(r.unsigned())
		}
		if r.short {
			return nil, fmt.Errorf("extent %d is cut off", i)
		}
		if !e.Unused() {
			end = int64(e.End())
		}
		extents[i] = e
	}
	return extents, nil
}

// varints reads integers of variable length. short is set if the data ends early or an integer is too long.
type varints struct {
	data  []byte
	short bool
}

func (v *varints) unsigned() uint64 {
	x, n := binary.Uvarint(v.data)
	v.skip(n)
	return x
}

func (v *varints) signed() int64 {
	x, n := binary.Varint(v.data)
	v.skip(n)
	return x
}

func (v *varints) skip(n int) {
	v.short = v.short || n <= 0
	v.data = v.data[max(n, 0):]
}
