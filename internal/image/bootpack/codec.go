package bootpack

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"pando/internal/chunk"
	"pando/internal/fleet"
)

const (
	magic        = "PNDB"
	formatPlain  = 1 // without fast digests
	formatProved = 2
	formatShared = 3 // with fast digests, and with extents that are not in the root
	// magic (4), format (1), algorithm of the version (1), length of the class (1), zero (1), sequence (8),
	// pieces (4), extents (4), pieces until booted (4), zero (4), digest of the version (32)
	headerSize = 64
)

// PieceSize is the size of a piece's entry and fast digest in a map, in bytes.
const PieceSize = chunk.EntrySize + len(chunk.FastDigest{})

// Encode returns the bytes of the map, which are signed and stored as an object.
func (p Map) Encode() ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	version, err := chunk.ParseID(string(p.Version))
	if err != nil {
		return nil, fmt.Errorf("boot pack: %w", err)
	}
	b := append([]byte(magic), p.format(), byte(version.Algorithm), byte(len(p.Class)), 0)
	b = binary.LittleEndian.AppendUint64(b, p.Sequence)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.Pieces)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.Extents)))
	b = binary.LittleEndian.AppendUint32(b, uint32(p.Booted))
	b = append(b, 0, 0, 0, 0)
	b = append(b, version.Sum[:]...)
	b = append(b, p.Class...)
	for _, e := range p.Pieces {
		b = e.Append(b)
	}
	for _, proof := range p.Proofs {
		b = append(b, proof[:]...)
	}
	if b = p.appendExtents(b); len(b) > MaxSize {
		return nil, fmt.Errorf("boot pack: its map has %d bytes, more than %d", len(b), MaxSize)
	}
	return b, nil
}

func (p Map) format() byte {
	switch {
	case slices.ContainsFunc(p.Extents, Extent.Unused):
		return formatShared
	case len(p.Proofs) > 0:
		return formatProved
	}
	return formatPlain
}

// Decode is the inverse of Encode. It accepts only bytes that Encode would write. A node must use Verify instead.
func Decode(data []byte) (Map, error) {
	p, err := decode(data)
	if err != nil {
		return Map{}, fmt.Errorf("decode boot pack: %w", err)
	}
	again, err := p.Encode() // it also validates
	if err != nil {
		return Map{}, fmt.Errorf("decode boot pack: %w", err)
	}
	if !bytes.Equal(again, data) {
		return Map{}, fmt.Errorf("decode boot pack: %d bytes in a form that Encode does not write", len(data))
	}
	return p, nil
}

func decode(data []byte) (Map, error) {
	if len(data) > MaxSize {
		return Map{}, fmt.Errorf("%d bytes, more than %d", len(data), MaxSize)
	}
	version, sequence, err := readHead(data)
	if err != nil {
		return Map{}, err
	}
	pieces, extents := int(binary.LittleEndian.Uint32(data[16:])), int(binary.LittleEndian.Uint32(data[20:]))
	class, rest := int(data[6]), data[headerSize:]
	if len(rest) < class || (len(rest)-class)/pieceSize(data[4]) < pieces || len(rest)/2 < extents {
		return Map{}, fmt.Errorf("%d bytes do not hold %d pieces and %d extents", len(data), pieces, extents)
	}
	p := Map{
		Version: version, Sequence: sequence, Class: string(rest[:class]),
		Booted: int(binary.LittleEndian.Uint32(data[24:])), Pieces: make([]chunk.Entry, pieces),
	}
	rest = rest[class:]
	for i := range p.Pieces {
		p.Pieces[i] = chunk.ReadEntry(rest)
		rest = rest[chunk.EntrySize:]
	}
	if data[4] != formatPlain {
		p.Proofs = make([]chunk.FastDigest, pieces)
		for i := range p.Proofs {
			rest = rest[copy(p.Proofs[i][:], rest):]
		}
	}
	p.Extents, err = decodeExtents(rest, extents, data[4] == formatShared)
	return p, err
}

// pieceSize returns the encoded size of a piece, in bytes.
func pieceSize(format byte) int {
	if format == formatPlain {
		return chunk.EntrySize
	}
	return PieceSize
}

// readHead reads the version and the sequence, which the signature's trusted comment repeats.
func readHead(data []byte) (fleet.Digest, uint64, error) {
	switch {
	case len(data) < headerSize || string(data[:4]) != magic:
		return "", 0, fmt.Errorf("%d bytes that do not start with %q", len(data), magic)
	case data[4] < formatPlain || data[4] > formatShared:
		return "", 0, fmt.Errorf("format %d, this Pando knows %d to %d", data[4], formatPlain, formatShared)
	}
	version := chunk.ID{Algorithm: chunk.SHA256, Sum: [32]byte(data[32:])}
	return fleet.Digest(version.String()), binary.LittleEndian.Uint64(data[8:]), nil
}
