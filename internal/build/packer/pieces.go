package packer

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// grain says where a piece ends: once it has as many bytes as least, before a block whose digest begins with a byte
// that has no bit in common with border, so that a recording that differs in one place shares what follows; at most
// bytes in any case. That makes about twice as many bytes as least on average. A piece of several blocks that has
// more than stored bytes as it is sent is cut into equal parts.
type grain struct {
	least, most int
	border      byte
	stored      int
}

// A storm is as fast as nodes pass pieces on, and one piece that is four times the usual one holds up all boots,
// which need it in its turn: see docs/adr/0053-rules-of-the-swarm.md. Pieces of 256 KiB raw serve a server, whose
// boot reads 60 MB: 1 MiB would save 3 % of the bytes, and a read that waits for a piece would wait four times as
// long. A desktop's boot reads ten times as much, in 2,000 of them; twice as large they halve what nodes tell each
// other and the tracker, and the storm still has four times as many as a server's.
func fine() grain { return grain{least: 128 << 10, most: 512 << 10, border: 0xf8, stored: 64 << 10} }

func coarse() grain {
	return grain{least: 256 << 10, most: chunk.MaxRaw, border: 0xfc, stored: 192 << 10}
}

// coarseFrom is from how many raw bytes on a pack has coarse pieces.
const coarseFrom = 192 << 20

// grain is how an order is cut.
func (o Order) grain() grain {
	if o.Blocks()*chunk.BlockSize < coarseFrom {
		return fine()
	}
	return coarse()
}

// parts is how many parts a piece is cut into because of what it has as it is sent.
func (g grain) parts(raw, stored int) int {
	return min((stored+g.stored-1)/g.stored, raw/chunk.BlockSize)
}

// pieceOf is a piece of a pack that is being made.
type pieceOf struct {
	chunk.Entry
	first   int64             // place in the order of the first of its blocks
	extents []bootpack.Extent // its blocks, as they lie in it
}

// blockReader reads the blocks of a root file system.
type blockReader interface {
	// Block reads block n into b, and says whether it has bytes: zeros have no object.
	Block(b []byte, n uint32) (ok bool, err error)
}

// cutter gathers blocks into pieces.
type cutter struct {
	grain
	root blockReader
	kept keptPieces                              // pieces that are there, and what they have of the order
	emit func(raw []byte) ([]chunk.Entry, error) // makes pieces, mostly one; raw is used again after it

	raw    []byte
	blocks Order // that raw has
	first  int64
	pieces []pieceOf
	runs   int // extents of pieces
}

// cut cuts the blocks of an order, and says how many pieces a boot needs until it has booted. Zeros and what is
// beyond the end are left out. Pieces come in the order in which the first of their blocks does.
func (c *cutter) cut(order Order) (booted int, err error) {
	for _, p := range c.kept.pieces {
		c.add(p)
	}
	raw := make([]byte, chunk.BlockSize)
	for place, b := range order.Each() {
		if place == order.Booted {
			if err := c.end(); err != nil {
				return 0, err
			}
		}
		if c.kept.blocks[b] || c.full() {
			continue
		}
		if err := c.take(b, place, raw); err != nil {
			return 0, err
		}
	}
	if err := c.end(); err != nil {
		return 0, err
	}
	slices.SortStableFunc(c.pieces, func(a, b pieceOf) int { return cmp.Compare(a.first, b.first) })
	for booted < len(c.pieces) && c.pieces[booted].first < order.Booted {
		booted++
	}
	return booted, nil
}

func (c *cutter) add(p pieceOf) {
	c.pieces = append(c.pieces, p)
	c.runs += len(p.extents)
}

// full tells that the map has no room for more. What comes last is left out.
func (c *cutter) full() bool {
	return mapRoom-bootpack.PieceSize*(len(c.pieces)+2*c.most/c.stored)-extentMost*(c.runs+len(c.blocks.Extents)+1) < 0
}

const (
	// what the largest map has for pieces and extents, besides its header and a hardware class, in bytes
	mapRoom    = bootpack.MaxSize - 128
	extentMost = 10 // that an extent takes of it
)

func (c *cutter) take(b uint32, place int64, block []byte) error {
	if ok, err := c.root.Block(block, b); err != nil || !ok {
		return err
	}
	border := len(c.raw) >= c.least && sha256.Sum256(block)[0]&c.border == 0
	if border || len(c.raw) >= c.most {
		if err := c.end(); err != nil {
			return err
		}
	}
	if len(c.raw) == 0 {
		c.first = place
	}
	c.raw = append(c.raw, block...)
	c.blocks.add(b)
	return nil
}

// end makes pieces of the blocks that were gathered. Those of one gathering stay in their order.
func (c *cutter) end() error {
	if len(c.raw) == 0 {
		return nil
	}
	entries, err := c.emit(c.raw)
	if err != nil {
		return fmt.Errorf("piece %d: %w", len(c.pieces), err)
	}
	all := bootpack.Map{Pieces: entries, Extents: c.blocks.Extents}
	parts := make([]pieceOf, len(entries))
	for i, e := range all.Placed() {
		parts[i].extents = append(parts[i].extents, e)
	}
	for i, p := range parts {
		p.Entry, p.first = entries[i], c.first
		c.add(p)
	}
	c.raw, c.blocks = c.raw[:0], Order{}
	return nil
}

// joined are the extents of pieces, one after the other.
func joined(pieces []pieceOf) (entries []chunk.Entry, extents []bootpack.Extent) {
	for _, p := range pieces {
		entries = append(entries, p.Entry)
		for _, e := range p.extents {
			extents = bootpack.AppendExtent(extents, e)
		}
	}
	return entries, extents
}

// unpacked is the entry of a piece, checked against what it was made of: pieces come from another program than the
// one that will unpack them.
func unpacked(d *chunk.Decoder, raw, stored []byte, codec chunk.Codec) (chunk.Entry, error) {
	e := chunk.Entry{RawSize: len(raw), StoredSize: len(stored), Codec: codec, ID: chunk.Sum(stored)}
	back := make([]byte, len(raw))
	if err := d.Decode(back, stored, codec); err != nil {
		return e, err
	}
	if sha256.Sum256(back) != sha256.Sum256(raw) {
		return e, fmt.Errorf("packed and unpacked it differs")
	}
	return e, e.Check()
}

// OrderOf reads the blocks of a pack back as an order.
func OrderOf(p bootpack.Map) Order {
	var o Order
	for i, e := range p.Placed() {
		if e.Unused() {
			continue
		}
		o.Extents = bootpack.AppendExtent(o.Extents, e)
		if i < p.Booted {
			o.Booted += int64(e.Blocks)
		}
	}
	return o
}
