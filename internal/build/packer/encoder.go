package packer

import (
	"bytes"
	"context"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"pando/internal/chunk"
	"pando/internal/zstdcmd"
)

// packNice is the priority at which pieces are packed: boots are served meanwhile. At 19, the lowest, four packs of
// 40 MB were not done in ten minutes beside emulators that took all of two processors; a process at 10 gets a tenth
// of what another gets.
const packNice = 10

// pieceEncoder packs pieces: by the program zstd, or without it by the best level of Go's package, which makes them
// about a tenth larger. Measured on the 39.8 MB that a boot of a Debian 12 server reads: 11.8 MB, and 13.1 MB.
type pieceEncoder struct {
	program zstdcmd.Program
	best    *zstd.Encoder
	decoder chunk.Decoder // to check what they made
}

func newPieceEncoder() (*pieceEncoder, error) {
	best, err := zstd.NewWriter(
		nil,
		zstd.WithEncoderLevel(zstd.SpeedBestCompression),
		zstd.WithWindowSize(chunk.MaxRaw),
		zstd.WithSingleSegment(true),
		zstd.WithEncoderCRC(false),
		zstd.WithEncoderConcurrency(1),
	)
	if err != nil {
		return nil, fmt.Errorf("make zstd encoder: %w", err)
	}
	return &pieceEncoder{program: zstdcmd.Find(), best: best}, nil
}

// encode packs one piece, or stores what does not become at least one sixteenth smaller, as chunks are.
func (p *pieceEncoder) encode(ctx context.Context, raw []byte) ([]byte, chunk.Entry, error) {
	if p.program != "" {
		packed, err := p.program.Compress(ctx, raw, packNice, "--no-check")
		if err == nil && len(packed) <= len(raw)-len(raw)/16 {
			if e, err := unpacked(&p.decoder, raw, packed, chunk.Zstd); err == nil {
				return packed, e, nil
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, chunk.Entry{}, err
		}
	}
	packed := p.best.EncodeAll(raw, nil)
	codec := chunk.Zstd
	if len(packed) > len(raw)-len(raw)/16 {
		packed, codec = bytes.Clone(raw), chunk.Stored
	}
	e, err := unpacked(&p.decoder, raw, packed, codec)
	return packed, e, err
}
