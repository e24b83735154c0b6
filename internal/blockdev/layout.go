package blockdev

import (
	"fmt"
	"sort"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// layout finds the blocks of the root in the pieces of a boot pack. Offsets "in the pack" count the raw bytes of all
// pieces in order.
type layout struct {
	pieces  []chunk.Entry
	ends    []int64  // end of each piece in the pack
	extents []placed // ordered by offset in the root
}

// placed is an extent of blocks of the root. at is its first block in the pack.
type placed struct{ start, blocks, at uint32 }

func (e placed) end() int64 { return (int64(e.start) + int64(e.blocks)) * chunk.BlockSize }

// newLayout returns the layout of a pack for a root of size bytes, and an error if the pack does not fit the root.
func newLayout(p bootpack.Map, size int64) (*layout, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	l := &layout{pieces: p.Pieces, ends: make([]int64, len(p.Pieces)), extents: make([]placed, 0, len(p.Extents))}
	end := int64(0)
	for i, e := range p.Pieces {
		end += int64(e.RawSize)
		l.ends[i] = end
	}
	at := uint32(0)
	for _, e := range p.Extents {
		if !e.Unused() {
			x := placed{e.Start, e.Blocks, at}
			if x.end() > size {
				return nil, fmt.Errorf("boot pack: block %d is beyond the root's %d bytes", e.End()-1, size)
			}
			l.extents = append(l.extents, x)
		}
		at += e.Blocks
	}
	sort.Slice(l.extents, func(i, j int) bool { return l.extents[i].start < l.extents[j].start })
	return l, nil
}

// span is a run of bytes of the root, with its position in the pack.
type span struct {
	off, n int64
	piece  int   // -1: the pack does not have it
	at     int64 // offset in the piece's raw bytes
}

// split cuts n bytes from off into spans.
func (l *layout) split(off, n int64) []span {
	var out []span
	for n > 0 {
		s := l.first(off, n)
		out = append(out, s)
		off, n = off+s.n, n-s.n
	}
	return out
}

// first returns the longest span of at most n bytes from off. A nil layout has no blocks.
func (l *layout) first(off, n int64) span {
	if l == nil {
		return span{off, n, -1, 0}
	}
	i := sort.Search(len(l.extents), func(i int) bool { return l.extents[i].end() > off })
	if i == len(l.extents) {
		return span{off, n, -1, 0}
	}
	e := l.extents[i]
	start := int64(e.start) * chunk.BlockSize
	if off < start {
		return span{off, min(n, start-off), -1, 0}
	}
	at := int64(e.at)*chunk.BlockSize + off - start
	j := sort.Search(len(l.ends), func(j int) bool { return l.ends[j] > at })
	return span{off, min(n, e.end()-off, l.ends[j]-at), j, at - l.begin(j)}
}

// begin returns the offset of piece i in the pack.
func (l *layout) begin(i int) int64 { return l.ends[i] - int64(l.pieces[i].RawSize) }
