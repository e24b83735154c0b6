package build

import (
	"crypto/sha256"
	"fmt"

	"pando/internal/chunk"
	"pando/internal/image"
)

// grain says where a piece ends: once it has as many bytes as least, before a block whose digest begins with a byte that has no bit in common with
// border, so that a recording that differs in one place shares what follows; at most bytes in any case. That makes about twice as many bytes as
// least on average. A piece of several blocks that has more than stored bytes as it is sent is cut into equal parts.
type grain struct {
	least, most int
	border      byte
	stored      int
}

// A storm is as fast as nodes pass pieces on, and one piece that is four times the usual one holds up all boots, which need it in its
// turn: see docs/adr/0017-pieces-of-even-size.md. Pieces of 256 KiB raw serve a server, whose boot reads 60 MB: 1 MiB would save 3 % of the
// bytes, and a read that waits for a piece would wait four times as long. A desktop's boot reads ten times as much, in 2,000 of them; twice as large they halve
// what nodes tell each other and the tracker, and the storm still has four times as many as a server's.
var (
	fine   = grain{least: 128 << 10, most: 512 << 10, border: 0xf8, stored: 64 << 10}
	coarse = grain{least: 256 << 10, most: chunk.MaxRaw, border: 0xfc, stored: 192 << 10}
)

// coarseFrom is from how many raw bytes on a pack has coarse pieces.
const coarseFrom = 192 << 20

// grain is how an order is cut.
func (o Order) grain() grain {
	if o.Blocks()*chunk.BlockSize < coarseFrom {
		return fine
	}
	return coarse
}

// parts is how many parts a piece is cut into because of what it has as it is sent.
func (g grain) parts(raw, stored int) int {
	return min((stored+g.stored-1)/g.stored, raw/chunk.BlockSize)
}

// cutter gathers blocks into pieces.
type cutter struct {
	grain
	root    *rootReader
	emit    func(raw []byte) (pieces int, err error) // makes pieces, mostly one; raw is used again after it
	raw     []byte
	extents Order // what is in the pieces
	pieces  int
	booted  int // pieces until the boot has booted
}

// cut cuts the blocks of an order. Zeros and what is beyond the end are left out.
func (c *cutter) cut(order Order) error {
	block := make([]byte, chunk.BlockSize)
	done := int64(0)
	for _, e := range order.Extents {
		for b := e.Start; uint64(b) < e.End(); b++ {
			if done == order.Booted {
				if err := c.endBoot(); err != nil {
					return err
				}
			}
			done++
			if c.full() {
				continue
			}
			if err := c.take(b, block); err != nil {
				return err
			}
		}
	}
	if done <= order.Booted {
		return c.endBoot()
	}
	return c.end()
}

// full tells that the map has no room for more: an extent takes at most ten bytes of it. What comes last is left out.
func (c *cutter) full() bool {
	return mapRoom-image.PieceSize*(c.pieces+2*c.most/c.stored)-10*(len(c.extents.Extents)+1) < 0
}

// mapRoom is what the largest map has for pieces and extents, besides its header and a hardware class.
const mapRoom = image.MaxPack - 128

// endBoot ends the piece that the last block before `booted` is in.
func (c *cutter) endBoot() error {
	err := c.end()
	c.booted = c.pieces
	return err
}

func (c *cutter) take(b uint32, block []byte) error {
	off := int64(b) * chunk.BlockSize
	if off >= c.root.root.RawSize() {
		return nil
	}
	if zero, err := c.root.zero(off); err != nil || zero {
		return err
	}
	if _, err := c.root.ReadAt(block, off); err != nil {
		return err
	}
	border := len(c.raw) >= c.least && sha256.Sum256(block)[0]&c.border == 0
	if border || len(c.raw) >= c.most {
		if err := c.end(); err != nil {
			return err
		}
	}
	c.raw = append(c.raw, block...)
	c.extents.add(b)
	return nil
}

func (c *cutter) end() error {
	if len(c.raw) == 0 {
		return nil
	}
	n, err := c.emit(c.raw)
	if err != nil {
		return fmt.Errorf("piece %d: %w", c.pieces, err)
	}
	c.pieces += n
	c.raw = c.raw[:0]
	return nil
}

// unpacked is the entry of a piece, checked against what it was made of: pieces come from another program than the one that
// will unpack them.
func unpacked(raw, stored []byte, codec chunk.Codec) (chunk.Entry, error) {
	e := chunk.Entry{RawSize: len(raw), StoredSize: len(stored), Codec: codec, ID: chunk.Sum(stored)}
	back := make([]byte, len(raw))
	if err := chunk.Decode(back, stored, codec); err != nil {
		return e, err
	}
	if sha256.Sum256(back) != sha256.Sum256(raw) {
		return e, fmt.Errorf("packed and unpacked it differs")
	}
	return e, e.Check()
}

// OrderOf reads the blocks of a pack back as an order.
func OrderOf(p image.Pack) Order {
	o := Order{Extents: p.Extents}
	for _, e := range p.Pieces[:p.Booted] {
		o.Booted += int64(e.RawSize / chunk.BlockSize)
	}
	return o
}
