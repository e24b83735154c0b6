package packer

import (
	"bytes"
	"context"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"pando/internal/chunk"
	"pando/internal/zstdcmd"
)

// packNice is the nice value of the compressing program, which runs beside boots. At 19 it may starve on a busy server;
// at 10 it gets about a tenth of the time of a usual process.
const packNice = 10

// pieceEncoder compresses pieces with the program zstd, or without it with Go's package at its best level, which makes
// pieces about a tenth larger.
type pieceEncoder struct {
	program zstdcmd.Program
	best    *zstd.Encoder
	decoder chunk.Decoder // checks the result
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

// encode compresses one piece. It stores a piece that does not become at least a sixteenth smaller, as for chunks.
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
