package bootpack

import (
	"encoding/binary"
	"fmt"
	"iter"

	"pando/internal/chunk"
)

// Placed gives the extents piece by piece, in their order, cut where a piece ends. The pack is valid.
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

// AppendExtent appends an extent to others, as one with the last where it goes on there.
func AppendExtent(to []Extent, e Extent) []Extent {
	if last := len(to) - 1; last >= 0 && e.follows(to[last]) {
		to[last].Blocks += e.Blocks
		return to
	}
	return append(to, e)
}

// appendExtents encodes the extents. Where some are unused, the number of blocks comes first and says so: these
// begin nowhere.
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

// decodeExtents is the inverse of appendExtents. What does not fit into 32 bits is written otherwise, and so
// refused by the comparison in Decode.
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

// varints reads integers of variable length; short: there were fewer than were asked for, or one that is too long.
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
