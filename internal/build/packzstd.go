package build

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"pando/internal/chunk"
)

// pieceLevel is zstd's level for pieces. They are packed once, in the background, and sent to every node. Measured on the
// 39.8 MB that a boot of a Debian 12 server reads: 11.8 MB, Go's best level makes 13.1 MB of them.
const pieceLevel = 19

// pieceEncoder packs pieces: by the program zstd, whose levels above 11 Go's package does not have, or without it by that
// package's best level, which makes them about a tenth larger.
type pieceEncoder struct {
	program string // "": there is none
	best    *zstd.Encoder
}

func newPieceEncoder() (*pieceEncoder, error) {
	program, err := exec.LookPath("zstd")
	if err != nil {
		program = ""
	}
	best, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(chunk.MaxRaw),
		zstd.WithSingleSegment(true), zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("make zstd encoder: %w", err)
	}
	return &pieceEncoder{program, best}, nil
}

// encode packs one piece, or stores what does not become at least one sixteenth smaller, as chunks are.
func (p *pieceEncoder) encode(ctx context.Context, raw []byte) ([]byte, chunk.Entry, error) {
	if p.program != "" {
		packed, err := p.run(ctx, raw)
		if err == nil && len(packed) <= len(raw)-len(raw)/16 {
			if e, err := unpacked(raw, packed, chunk.Zstd); err == nil {
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
	e, err := unpacked(raw, packed, codec)
	return packed, e, err
}

// packNice is the priority at which pieces are packed: boots are served meanwhile. At 19, the lowest, four packs of
// 40 MB were not done in ten minutes beside emulators that took all of two processors; a process at 10 gets a tenth of what another gets.
const packNice = 10

// run has the program pack raw. The size is told in advance, so that
// the frame is a single segment and needs no window.
func (p *pieceEncoder) run(ctx context.Context, raw []byte) ([]byte, error) {
	cmd := exec.CommandContext(ctx, p.program, "-q", "-c", "-"+strconv.Itoa(pieceLevel), "--no-check", "--single-thread",
		"--stream-size="+strconv.Itoa(len(raw)))
	var out, problem bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(raw), &out, &problem
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.program, err)
	}
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, cmd.Process.Pid, packNice) // it works at any priority
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", p.program, err, bytes.TrimSpace(problem.Bytes()))
	}
	return out.Bytes(), nil
}
