package peer

import "math/bits"

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

// fits tells whether b is a bitmap of exactly so many pieces.
func (b Bitmap) fits(pieces int) bool {
	if len(b) != (pieces+7)/8 {
		return false
	}
	return pieces%8 == 0 || b[len(b)-1]>>(pieces%8) == 0
}
