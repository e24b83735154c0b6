package packer

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// grain says where pieces end: after least bytes, at a block whose digest selects it (no bit in common with border),
// and at most bytes at the latest. So recordings that differ slightly share later pieces. Pieces average about twice
// least. A piece of several blocks with more than stored compressed bytes is cut into equal parts.
type grain struct {
	least, most int
	border      byte
	stored      int
}

// fine is for packs of servers, coarse for packs of desktops, whose boots read ten times as much. Small pieces are
// passed on sooner, and one large piece delays all boots. Large pieces need fewer messages. See
// docs/adr/0053-rules-of-the-swarm.md.
func fine() grain { return grain{least: 128 << 10, most: 512 << 10, border: 0xf8, stored: 64 << 10} }

func coarse() grain {
	return grain{least: 256 << 10, most: chunk.MaxRaw, border: 0xfc, stored: 192 << 10}
}

// coarseFrom is the size in raw bytes from which a pack has coarse pieces.
const coarseFrom = 192 << 20

// grain returns how an order is cut.
func (o Order) grain() grain {
	if o.Blocks()*chunk.BlockSize < coarseFrom {
		return fine()
	}
	return coarse()
}

// parts returns into how many parts a piece is cut because of its compressed size.
func (g grain) parts(raw, stored int) int {
	return min((stored+g.stored-1)/g.stored, raw/chunk.BlockSize)
}

// pieceOf is a piece of a new pack.
type pieceOf struct {
	chunk.Entry
	first   int64             // place in the order of its first block
	extents []bootpack.Extent // its blocks, in the order in the piece
}

// blockReader reads the blocks of a root file system.
type blockReader interface {
	// Block reads block n into b. ok is false for a block of zeros, which has no object.
	Block(b []byte, n uint32) (ok bool, err error)
}

// cutter gathers blocks into pieces.
type cutter struct {
	grain
	root blockReader
	kept keptPieces                              // kept pieces of the pack before, and their blocks
	emit func(raw []byte) ([]chunk.Entry, error) // makes one or more pieces; raw is reused afterwards

	raw    []byte
	blocks Order // blocks in raw
	first  int64
	pieces []pieceOf
	runs   int // number of extents of pieces
}

// cut cuts the blocks of an order into pieces, ordered by the place of their first block. It leaves out zeros and
// blocks beyond the end. booted is how many pieces a boot needs until it has booted.
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

// full reports that the map has no room for more. The last blocks of the order are then left out.
func (c *cutter) full() bool {
	return mapRoom-bootpack.PieceSize*(len(c.pieces)+2*c.most/c.stored)-extentMost*(c.runs+len(c.blocks.Extents)+1) < 0
}

const (
	// Bytes of the largest map for pieces and extents, without its header and hardware class.
	mapRoom    = bootpack.MaxSize - 128
	extentMost = 10 // most bytes of an extent in the map
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

// end makes pieces of the gathered blocks. They stay in their order.
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

// joined returns the entries and the extents of pieces, in order.
func joined(pieces []pieceOf) (entries []chunk.Entry, extents []bootpack.Extent) {
	for _, p := range pieces {
		entries = append(entries, p.Entry)
		for _, e := range p.extents {
			extents = bootpack.AppendExtent(extents, e)
		}
	}
	return entries, extents
}

// unpacked returns the entry of a piece after checking that it unpacks to raw: another program may have compressed it.
func unpacked(d *chunk.Decoder, raw, stored []byte, codec chunk.Codec) (chunk.Entry, error) {
	e := chunk.Entry{RawSize: len(raw), StoredSize: len(stored), Codec: codec, ID: chunk.Sum(stored)}
	back := make([]byte, len(raw))
	if err := d.Decode(back, stored, codec); err != nil {
		return e, err
	}
	if sha256.Sum256(back) != sha256.Sum256(raw) {
		return e, errors.New("the compressed piece unpacks to other bytes")
	}
	return e, e.Check()
}

// OrderOf returns the blocks of a pack as an order.
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
