package initramfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"pando/internal/zstdcmd"

	"github.com/klauspost/compress/zstd"
)

// kernelWindow is the zstd window of the parts of K. The kernel's decoder takes up to 128 MiB; a window as
// long as the largest part lets it find what two drivers have in common. It costs that much memory for the
// moment of unpacking, on machines that are about to run a desktop.
const kernelWindow = 32 << 20

// CompressCPIO packs an archive for the kernel's initramfs unpacker. The compressor is compiled in, not the
// host's zstd tool: the result is part of a version's digest and must not change with the build machine.
func CompressCPIO(raw []byte) ([]byte, error) {
	enc, err := newCPIOEncoder(1)
	if err != nil {
		return nil, err
	}
	packed := enc.EncodeAll(raw, nil)
	return packed, enc.Close()
}

// newCPIOEncoder makes one that packs some archives at a time. Each of these has 66 MB, for a window and the tables
// of the best level; an encoder of its own for each archive left 100 MB behind until they were collected.
func newCPIOEncoder(atOnce int) (*zstd.Encoder, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(kernelWindow),
		zstd.WithEncoderConcurrency(atOnce), zstd.WithEncoderCRC(true), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("compress cpio: %w", err)
	}
	return enc, nil
}

// compressAgent packs the agent's cpio for the kernel. No digest of a version covers it, so the program zstd may
// pack it, or where that is missing what packs drivers. Measured on a program of 8.36 MB: 2.92 MB, and 3.24 MB. (xz
// with its filter for x86 made 2.58 MB of it, but takes 0.14 s longer to unpack, in which 100 Mb/s bring five times
// what it saves.)
func compressAgent(ctx context.Context, raw []byte) ([]byte, error) {
	packed, err := zstdcmd.Find().Compress(ctx, raw, 0, "--check")
	if err != nil {
		if ctx.Err() != nil || !errors.Is(err, zstdcmd.ErrMissing) {
			return nil, err
		}
		return CompressCPIO(raw)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(len(raw))))
	if err != nil {
		return nil, fmt.Errorf("make zstd decoder: %w", err)
	}
	defer dec.Close()
	if back, err := dec.DecodeAll(packed, nil); err != nil || !bytes.Equal(back, raw) {
		return nil, fmt.Errorf("the program zstd packed something else than it was given (%v)", err)
	}
	return packed, nil
}
