package chunk

import (
	"encoding/binary"
	"fmt"
)

// Entry describes the object of one extent of raw bytes. The position of the extent follows from the sizes of the
// entries before it, so a page does not change when data before it grows.
type Entry struct {
	RawSize    int   // bytes, a multiple of BlockSize
	StoredSize int   // bytes of the object; 0 for Zero
	Codec      Codec // how to unpack it
	ID         ID    // the object; the zero ID for Zero
}

// MaxZeroRun is the largest raw extent, in bytes, that one Zero entry covers. Entries that have an object
// are at most MaxRaw.
const MaxZeroRun = 65535 * BlockSize

// EntrySize is the encoded size of an Entry, in bytes:
// raw size in blocks (2), codec (1), digest algorithm (1), stored size (4), digest (32).
const EntrySize = 40

// Check returns what is wrong with an entry. Code that writes or reads entries calls it.
func (e Entry) Check() error {
	limit := MaxRaw
	if e.Codec == Zero {
		limit = MaxZeroRun
	}
	switch {
	case e.RawSize <= 0 || e.RawSize%BlockSize != 0 || e.RawSize > limit:
		return fmt.Errorf("raw size %d is not a multiple of %d from 1 block to %d bytes", e.RawSize, BlockSize, limit)
	case e.Codec == Zero && (e.StoredSize != 0 || !e.ID.IsZero()):
		return fmt.Errorf("an extent of zeros must not name an object")
	case e.Codec == Zero:
		return nil
	case e.ID.Algorithm != SHA256:
		return fmt.Errorf("unknown digest algorithm %d", e.ID.Algorithm)
	case e.Codec == Stored && e.StoredSize != e.RawSize:
		return fmt.Errorf("stored uncompressed, but with %d bytes for %d raw ones", e.StoredSize, e.RawSize)
	case e.Codec == Zstd && (e.StoredSize <= 0 || e.StoredSize >= e.RawSize):
		return fmt.Errorf("compressed, but with %d bytes for %d raw ones", e.StoredSize, e.RawSize)
	case e.Codec > Zstd:
		return fmt.Errorf("unknown %s", e.Codec)
	}
	return nil
}

// Append appends the EntrySize bytes of an entry that Check accepts.
func (e Entry) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(e.RawSize/BlockSize))
	b = append(b, byte(e.Codec), byte(e.ID.Algorithm))
	b = binary.LittleEndian.AppendUint32(b, uint32(e.StoredSize))
	return append(b, e.ID.Sum[:]...)
}

// ReadEntry reads the entry at the beginning of b, which has at least EntrySize bytes. The entry is not checked.
func ReadEntry(b []byte) Entry {
	return Entry{
		RawSize:    int(binary.LittleEndian.Uint16(b)) * BlockSize,
		Codec:      Codec(b[2]),
		StoredSize: int(binary.LittleEndian.Uint32(b[4:])),
		ID:         ID{Algorithm: Algorithm(b[3]), Sum: [32]byte(b[8:40])},
	}
}
