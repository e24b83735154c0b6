package swarm

import (
	"bytes"
	"math/bits"
)

// Bitmap says which pieces somebody has: piece 0 is the lowest bit of the first byte.
type Bitmap []byte

// NewBitmap is an empty bitmap for so many pieces.
func NewBitmap(pieces int) Bitmap { return make(Bitmap, (pieces+7)/8) }

// Has tells whether piece is set; a piece outside of the bitmap is not.
func (b Bitmap) Has(piece int) bool {
	return piece >= 0 && piece>>3 < len(b) && b[piece>>3]&(1<<(piece&7)) != 0
}

// Set adds a piece that lies in the bitmap.
func (b Bitmap) Set(piece int) { b[piece>>3] |= 1 << (piece & 7) }

// Clear takes one out.
func (b Bitmap) Clear(piece int) { b[piece>>3] &^= 1 << (piece & 7) }

// Count is how many pieces are set.
func (b Bitmap) Count() int {
	n := 0
	for _, x := range b {
		n += bits.OnesCount8(x)
	}
	return n
}

// Brief is what a message has of b: nodes fetch in about one order, so that b begins with bytes of which all bits
// are set, of which the message has the number, and ends with those of which none is, which are left out.
func (b Bitmap) Brief() (full int, rest Bitmap) {
	for full < len(b) && b[full] == 0xff {
		full++
	}
	return full, Bitmap(bytes.TrimRight(b[full:], "\x00"))
}

// Whole is the bitmap for so many pieces that is brief as full and rest; nil when there is none.
func Whole(full int, rest Bitmap, pieces int) Bitmap {
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

// fits tells whether b is a bitmap of exactly so many pieces.
func (b Bitmap) fits(pieces int) bool {
	if len(b) != (pieces+7)/8 {
		return false
	}
	return pieces%8 == 0 || b[len(b)-1]>>(pieces%8) == 0
}
