package initramfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"pando/internal/zstdcmd"

	"github.com/klauspost/compress/zstd"
)

// kernelWindow is the zstd window of initramfs parts, in bytes. The kernel's decoder takes up to 128 MiB. A window as
// long as the largest part finds what drivers have in common. The kernel needs that much memory while it unpacks.
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

// newCPIOEncoder makes an encoder that packs up to atOnce archives at a time. Each archive in work takes 66 MB. One
// shared encoder is used because an encoder for each archive leaves more memory to the garbage collector.
func newCPIOEncoder(atOnce int) (*zstd.Encoder, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(kernelWindow),
		zstd.WithEncoderConcurrency(atOnce), zstd.WithEncoderCRC(true), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("compress cpio: %w", err)
	}
	return enc, nil
}

// compressAgent packs the agent's cpio for the kernel. No digest of a version covers it, so the program zstd may pack
// it, which compresses better; without it the compiled-in encoder does. xz would be smaller, but unpacks too slowly.
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
		return nil, fmt.Errorf("the output of the program zstd does not unpack to its input (%v)", err)
	}
	return packed, nil
}
