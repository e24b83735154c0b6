package chunk

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// BlockSize is the unit of raw offsets and sizes, in bytes.
const BlockSize = 4096

// MaxRaw is the most raw bytes that one object may unpack to. It bounds what a hostile object can make a
// reader allocate; the builder's chunks are smaller (see DefaultChunkSize).
const MaxRaw = 1 << 20

// Codec says how an object's stored bytes become raw bytes. Its value is the codec byte of the formats.
type Codec byte

// The codecs.
const (
	Zero   Codec = 0 // all raw bytes are zero; there is no object
	Stored Codec = 1 // the object is the raw bytes
	Zstd   Codec = 2 // the object is one zstd frame (RFC 8878)
)

// String is the name of a codec, for people.
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

// Encoder packs raw bytes. The same raw bytes give the same stored bytes in every build of Pando: the
// version and the level of the compressor are pinned, and a golden test fails when its output changes.
// An Encoder may be used by several goroutines at once.
type Encoder struct{ zstd *zstd.Encoder }

// NewEncoder returns an encoder that packs up to parallel pieces at once; 0 means one for each processor.
func NewEncoder(parallel int) (*Encoder, error) {
	opts := []zstd.EOption{
		zstd.WithEncoderLevel(zstd.SpeedDefault), // zstd's level 3
		zstd.WithWindowSize(MaxRaw),
		zstd.WithSingleSegment(true),            // a reader knows the raw size from the index and needs no window
		zstd.WithEncoderCRC(false),              // the object's name is a better checksum
		zstd.WithAllLitEntropyCompression(true), // base64 and the like: half the alphabet, no repetition
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

// Encode packs raw and says how. Zeros give no bytes at all; what compression would not make at least
// one sixteenth smaller is stored as it is, because reading it then costs nothing.
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

// IsZero tells whether all of b is zero.
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

// decoder is made at the first use and never changes after that. Four pieces at once keep memory small; each keeps
// 0.2 MB, used or not, and a node's block daemon, which begins with one processor, never has more than two.
var decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(min(4, max(2, runtime.GOMAXPROCS(0)))),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(MaxRaw),
		zstd.WithDecoderMaxWindow(MaxRaw),
		zstd.IgnoreChecksum(true))
})

// Decode unpacks stored into dst, whose length is the raw size that the index states; any other outcome is
// an error. It is called after ID.Verify, never before, and it may be called by several goroutines at once.
func Decode(dst, stored []byte, codec Codec) error {
	return DecodeParts([][]byte{dst}, stored, codec)
}

// DecodeParts is Decode into several parts, one after the other.
func DecodeParts(dst [][]byte, stored []byte, codec Codec) error {
	switch codec {
	case Zero:
		for _, part := range dst {
			clear(part)
		}
		return nil
	case Stored:
		if n := total(dst); len(stored) != n {
			return fmt.Errorf("unpack object: %d stored bytes, the index says %d", len(stored), n)
		}
		spread(dst, stored)
		return nil
	case Zstd:
		return unpackZstd(dst, stored)
	}
	return fmt.Errorf("unpack object: unknown %s", codec)
}

func total(parts [][]byte) (n int) {
	for _, part := range parts {
		n += len(part)
	}
	return n
}

// spread copies as many bytes as the parts have to them.
func spread(dst [][]byte, raw []byte) {
	for _, part := range dst {
		raw = raw[copy(part, raw):]
	}
}

func unpackZstd(dst [][]byte, stored []byte) error {
	size := total(dst)
	if size > MaxRaw {
		return fmt.Errorf("unpack object: %d raw bytes, more than %d", size, MaxRaw)
	}
	d, err := decoder()
	if err != nil {
		return fmt.Errorf("unpack object: %w", err)
	}
	room := rooms.take(size + spare)
	defer rooms.give(room)
	out, err := d.DecodeAll(stored, room[:0:size+spare])
	switch {
	case err != nil && !errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Errorf("unpack object: %w", err)
	case err != nil || len(out) != size:
		return fmt.Errorf("unpack object: it holds %d raw bytes, the index says %d", len(out), size)
	}
	spread(dst, out)
	return nil
}

// spare is by how many bytes the buffer to unpack into is longer than what comes: the decoder then never has to
// look whether it writes beyond the end, which it does for the last block of each frame, of at most 128 KiB, where
// there is less.
const spare = 128<<10 + 16
