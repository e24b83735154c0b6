package swarm

import (
	"bytes"
	"math/bits"
)

// Bitmap is a set of pieces. Piece 0 is the lowest bit of the first byte.
type Bitmap []byte

// NewBitmap returns an empty bitmap for that number of pieces.
func NewBitmap(pieces int) Bitmap { return make(Bitmap, (pieces+7)/8) }

// Has reports whether a piece is in the set. A piece outside of the bitmap is not.
func (b Bitmap) Has(piece int) bool {
	return piece >= 0 && piece>>3 < len(b) && b[piece>>3]&(1<<(piece&7)) != 0
}

// Set adds a piece.
func (b Bitmap) Set(piece int) { b[piece>>3] |= 1 << (piece & 7) }

// Clear removes a piece.
func (b Bitmap) Clear(piece int) { b[piece>>3] &^= 1 << (piece & 7) }

// Count returns the number of pieces in the set.
func (b Bitmap) Count() int {
	n := 0
	for _, x := range b {
		n += bits.OnesCount8(x)
	}
	return n
}

// Compact returns b as a message carries it: the number of full bytes at its beginning, and the rest without the empty
// bytes at its end. Nodes fetch in about the pack's order, so both parts that are left out are long.
func (b Bitmap) Compact() (full int, rest Bitmap) {
	for full < len(b) && b[full] == 0xff {
		full++
	}
	return full, Bitmap(bytes.TrimRight(b[full:], "\x00"))
}

// Expand is the reverse of Compact for a bitmap of that number of pieces. It returns nil when the parts do not fit.
func Expand(full int, rest Bitmap, pieces int) Bitmap {
	b := NewBitmap(pieces)
	if full < 0 || full > len(b) || len(rest) > len(b)-full {
		return nil
	}
	for i := range full {
		b[i] = 0xff
	}
	copy(b[full:], rest)
	return b
}

// fits reports whether b is a valid bitmap of exactly that number of pieces.
func (b Bitmap) fits(pieces int) bool {
	if len(b) != (pieces+7)/8 {
		return false
	}
	return pieces%8 == 0 || b[len(b)-1]>>(pieces%8) == 0
}
