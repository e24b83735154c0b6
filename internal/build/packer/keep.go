package packer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"maps"
	"slices"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// A new pack keeps a piece of the pack before if at most 1/unusedOfPiece of its blocks are unused, and while all unused
// blocks are at most 1/UnusedOfAll of the new pack: a node without pieces receives them in vain. See
// docs/adr/0053-rules-of-the-swarm.md.
const (
	unusedOfPiece = 4
	UnusedOfAll   = 32
)

// keptPieces are the pieces of the pack before that the new one keeps.
type keptPieces struct {
	pieces []pieceOf
	blocks map[uint32]bool // blocks of the root that the pieces have
}

// keptPiece is a piece of the pack before, with what the new pack would use of it.
type keptPiece struct {
	chunk.Entry
	first  int64
	blocks []uint32 // for each of its blocks the equal block of the root; UnusedBlock: none
	unused int
}

// slot is the position of a block in a piece.
type slot struct {
	piece *keptPiece
	at    int
}

// keep chooses the pieces of the pack before that the new one keeps. Blocks are compared by their bytes, so a block may
// have moved in the root.
func (b *maker) keep(ctx context.Context, root blockReader) (k keptPieces, err error) {
	if b.Before == nil || OrderOf(*b.Before).grain() != b.Order.grain() {
		return k, nil // the pack before has pieces of another size
	}
	pieces, slots := b.before(ctx)
	if err := assign(slots, root, b.Order); err != nil {
		return k, err
	}
	k.blocks = map[uint32]bool{}
	maps.Copy(b.proofs, b.Before.ProofsOf())
	kept, unused, room := int64(0), 0, mapRoom
	for _, p := range choose(pieces, int(b.Order.Blocks())/UnusedOfAll) {
		piece := p.pieceOf()
		if room -= bootpack.PieceSize + extentMost*len(piece.extents); room < 0 {
			break // the map is full
		}
		k.pieces = append(k.pieces, piece)
		kept, unused = kept+int64(p.StoredSize), unused+p.unused
		if err := b.prove(ctx, p.ID, nil); err != nil {
			return k, err
		}
		for _, block := range p.blocks {
			if block != bootpack.UnusedBlock {
				k.blocks[block] = true
			}
		}
	}
	b.Log.Debug(
		"pieces kept of the boot pack before",
		"version",
		b.Version.Short(),
		"class",
		b.Class,
		"pieces",
		len(k.pieces),
		"of",
		len(b.Before.Pieces),
		"stored",
		kept,
		"unused",
		unused*chunk.BlockSize,
	)
	return k, ctx.Err()
}

// before reads the pieces of the pack before, and lists their blocks by digest. It leaves out missing or damaged
// pieces.
func (b *maker) before(ctx context.Context) (pieces []*keptPiece, slots map[[32]byte][]slot) {
	slots = map[[32]byte][]slot{}
	seen := map[chunk.ID]bool{}
	for _, e := range b.Before.Pieces {
		raw := make([]byte, e.RawSize)
		stored, err := b.Store.Get(ctx, e.ID)
		if err == nil {
			err = b.enc.decoder.Decode(raw, stored, e.Codec)
		}
		if err != nil || seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		p := &keptPiece{Entry: e}
		for block := range slices.Chunk(raw, chunk.BlockSize) {
			d := sha256.Sum256(block)
			slots[d] = append(slots[d], slot{p, len(p.blocks)})
			p.blocks = append(p.blocks, bootpack.UnusedBlock)
		}
		p.unused = len(p.blocks)
		pieces = append(pieces, p)
	}
	return pieces, slots
}

// assign assigns each block of an order to a free slot with the same bytes, if there is one.
func assign(slots map[[32]byte][]slot, root blockReader, order Order) error {
	raw := make([]byte, chunk.BlockSize)
	for place, b := range order.Each() {
		if ok, err := root.Block(raw, b); err != nil {
			return err
		} else if !ok {
			continue
		}
		d := sha256.Sum256(raw)
		if free := slots[d]; len(free) > 0 {
			free[0].take(b, place)
			slots[d] = free[1:]
		}
	}
	return nil
}

// take assigns the slot to block b of the root, which has that place in the order.
func (s slot) take(b uint32, place int64) {
	if s.piece.unused == len(s.piece.blocks) {
		s.piece.first = place
	}
	s.piece.blocks[s.at] = b
	s.piece.unused--
}

// choose returns the pieces to keep, those with the smallest unused share first, with at most most unused blocks in
// all.
func choose(pieces []*keptPiece, most int) []*keptPiece {
	pieces = slices.DeleteFunc(pieces, func(p *keptPiece) bool { return p.unused*unusedOfPiece > len(p.blocks) })
	slices.SortStableFunc(
		pieces,
		func(a, b *keptPiece) int { return cmp.Compare(a.unused*len(b.blocks), b.unused*len(a.blocks)) },
	)
	for i, p := range pieces {
		if most -= p.unused; most < 0 {
			return pieces[:i]
		}
	}
	return pieces
}

func (p *keptPiece) pieceOf() pieceOf {
	out := pieceOf{Entry: p.Entry, first: p.first}
	for _, b := range p.blocks {
		out.extents = bootpack.AppendExtent(out.extents, bootpack.Extent{Start: b, Blocks: 1})
	}
	return out
}
