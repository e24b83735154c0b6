package chunk

import (
	"bytes"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// BlockSize is the unit of raw offsets and sizes, in bytes.
const BlockSize = 4096

// MaxRaw is the limit of the raw bytes of one object. It bounds what a hostile object can make a reader allocate; the
// builder's chunks are smaller (see DefaultChunkSize).
const MaxRaw = 1 << 20

// Codec says how an object's stored bytes are turned into raw bytes. Its value is the codec byte of the formats.
type Codec byte

// The codecs.
const (
	Zero   Codec = 0 // all raw bytes are zero; there is no object
	Stored Codec = 1 // the object is the raw bytes
	Zstd   Codec = 2 // the object is one zstd frame (RFC 8878)
)

// String returns the name of a codec, for people.
func (c Codec) String() string {
	switch c {
	case Zero:
		return "zero"
	case Stored:
		return "stored"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("codec %d", byte(c))
}

// Encoder compresses raw bytes. The same raw bytes give the same stored bytes in every build of Pando: version and
// level of the compressor are pinned, and a golden test fails if its output changes. Several goroutines may use an
// Encoder at once.
type Encoder struct{ zstd *zstd.Encoder }

// NewEncoder returns an encoder that compresses up to parallel pieces at once; 0 means one for each processor.
func NewEncoder(parallel int) (*Encoder, error) {
	opts := []zstd.EOption{
		zstd.WithEncoderLevel(zstd.SpeedDefault), // zstd's level 3
		zstd.WithWindowSize(MaxRaw),
		zstd.WithSingleSegment(true),            // the reader knows the raw size from the index and needs no window
		zstd.WithEncoderCRC(false),              // the object's digest is a better checksum
		zstd.WithAllLitEntropyCompression(true), // improves base64 and similar text, which has no repetitions
	}
	if parallel > 0 {
		opts = append(opts, zstd.WithEncoderConcurrency(parallel))
	}
	enc, err := zstd.NewWriter(nil, opts...)
	if err != nil {
		return nil, fmt.Errorf("make zstd encoder: %w", err)
	}
	return &Encoder{enc}, nil
}

// Encode compresses raw and returns the codec. Zeros give no bytes. Data that would shrink by less than one sixteenth
// is stored uncompressed, because it is then read without decompression.
func (e *Encoder) Encode(raw []byte) (stored []byte, codec Codec) {
	if IsZero(raw) {
		return nil, Zero
	}
	packed := e.zstd.EncodeAll(raw, make([]byte, 0, len(raw)/2))
	if len(packed) > len(raw)-len(raw)/16 {
		return raw, Stored
	}
	return packed, Zstd
}

// IsZero reports whether all of b is zero.
func IsZero(b []byte) bool {
	for len(b) > len(zeros) {
		if !bytes.Equal(b[:len(zeros)], zeros[:]) {
			return false
		}
		b = b[len(zeros):]
	}
	return bytes.Equal(b, zeros[:len(b)])
}

var zeros [BlockSize]byte // never written to
