package bootpack

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"pando/internal/chunk"
	"pando/internal/fleet"
)

// MaxSize is the largest map of a boot pack, in bytes. A desktop that reads 600 MB during boot needs about 200 KB.
const MaxSize = 384 << 10

// Map lists which blocks of the root are in which piece of a boot pack, in order. A piece is an object; its raw bytes
// are blocks of the root. The raw bytes of all pieces are those of Extents, in order. A piece that was made for
// another version may have blocks that this version does not use.
type Map struct {
	Version  fleet.Digest       // the version that the map belongs to
	Sequence uint64             // grows with each recording of the version and class
	Class    string             // hardware class, "" for all
	Booted   int                // number of leading pieces that a boot needs until it has booted
	Pieces   []chunk.Entry      // in order; none is Zero
	Proofs   []chunk.FastDigest // of the pieces, in their order; empty: a map of format 1
	Extents  []Extent           // in the order of the pieces
}

// Extent is a run of blocks (of chunk.BlockSize bytes) of the root.
type Extent struct {
	Start, Blocks uint32
}

// UnusedBlock is the Start of an extent whose blocks are not in the root.
const UnusedBlock = math.MaxUint32

// Unused reports whether the blocks of the extent are not in the root. They lie in a piece, and nothing reads them.
func (e Extent) Unused() bool { return e.Start == UnusedBlock }

// End returns the block after the extent's last one.
func (e Extent) End() uint64 { return uint64(e.Start) + uint64(e.Blocks) }

// follows reports whether the extent continues another one, so that both can be one extent.
func (e Extent) follows(before Extent) bool {
	return e.Unused() && before.Unused() || !e.Unused() && !before.Unused() && uint64(e.Start) == before.End()
}

// class is the spelling of a hardware class, which is part of file names and URLs. A class may also be empty.
var class = fleet.Spelling{Inner: "._-", End: true, Max: 63}

// RawSize returns the unpacked bytes of the pieces.
func (p Map) RawSize() int64 {
	sum := int64(0)
	for _, e := range p.Pieces {
		sum += int64(e.RawSize)
	}
	return sum
}

// StoredSize returns the stored bytes of the pieces, as they are sent.
func (p Map) StoredSize() int64 {
	sum := int64(0)
	for _, e := range p.Pieces {
		sum += int64(e.StoredSize)
	}
	return sum
}

// BootSet returns the stored bytes and the number of the pieces that a boot needs until it has booted. Without that
// information in the map it needs all pieces.
func (p Map) BootSet() (stored int64, pieces int) {
	pieces = p.Booted
	if pieces == 0 {
		pieces = len(p.Pieces)
	}
	for _, e := range p.Pieces[:pieces] {
		stored += int64(e.StoredSize)
	}
	return stored, pieces
}

// ProofsOf returns the fast digests of the pieces by their IDs, nil if the map has none.
func (p Map) ProofsOf() chunk.FastDigests {
	if len(p.Proofs) != len(p.Pieces) {
		return nil
	}
	out := make(chunk.FastDigests, len(p.Pieces))
	for i, e := range p.Pieces {
		out[e.ID] = p.Proofs[i]
	}
	return out
}

// Validate returns what is wrong with the map.
func (p Map) Validate() error {
	for _, check := range []func() error{p.checkHead, p.checkPieces, p.checkExtents} {
		if err := check(); err != nil {
			return fmt.Errorf("boot pack: %w", err)
		}
	}
	return nil
}

func (p Map) checkHead() error {
	if _, err := fleet.ParseDigest(string(p.Version)); err != nil {
		return err
	}
	switch {
	case p.Class != "" && !class.Allows(p.Class):
		return fmt.Errorf("hardware class %q: want at most 63 of a-z, 0-9, dot, dash, underscore", p.Class)
	case len(p.Pieces) == 0:
		return fmt.Errorf("no pieces")
	case p.Booted < 0 || p.Booted > len(p.Pieces):
		return fmt.Errorf("%d of %d pieces until booted", p.Booted, len(p.Pieces))
	}
	return nil
}

func (p Map) checkPieces() error {
	if len(p.Proofs) > 0 && len(p.Proofs) != len(p.Pieces) {
		return fmt.Errorf("%d proofs of %d pieces", len(p.Proofs), len(p.Pieces))
	}
	for i, e := range p.Pieces {
		if err := e.Check(); err != nil {
			return fmt.Errorf("piece %d: %w", i, err)
		}
		if e.Codec == chunk.Zero {
			return fmt.Errorf("piece %d: a piece of zeros is not sent", i)
		}
	}
	return nil
}

// checkExtents checks that each block occurs once, and that extents and pieces have the same size.
func (p Map) checkExtents() error {
	blocks := int64(0)
	for i, e := range p.Extents {
		switch {
		case e.Blocks == 0 || !e.Unused() && e.End() > math.MaxUint32:
			return fmt.Errorf("extent %d: %d blocks at %d", i, e.Blocks, e.Start)
		case i > 0 && e.follows(p.Extents[i-1]):
			return fmt.Errorf("extent %d: it continues the previous one", i)
		}
		blocks += int64(e.Blocks)
	}
	if p.format() == formatShared && len(p.Proofs) == 0 {
		return fmt.Errorf("unused blocks need proofs of the pieces")
	}
	if blocks*chunk.BlockSize != p.RawSize() {
		return fmt.Errorf("extents of %d blocks, pieces of %d bytes", blocks, p.RawSize())
	}
	sorted := slices.DeleteFunc(slices.Clone(p.Extents), Extent.Unused)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].Start < sorted[j].Start })
	for i := 1; i < len(sorted); i++ {
		if sorted[i-1].End() > uint64(sorted[i].Start) {
			return fmt.Errorf("block %d occurs twice", sorted[i].Start)
		}
	}
	return nil
}
