package build

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// kernelWindow is the zstd window of the parts of K. The kernel's decoder takes up to 128 MiB; a window as
// long as the largest part lets it find what two drivers have in common. It costs that much memory for the
// moment of unpacking, on machines that are about to run a desktop.
const kernelWindow = 32 << 20

// compressCPIO packs an archive for the kernel's initramfs unpacker. The compressor is compiled in, not the
// host's zstd tool: the result is part of a version's digest and must not change with the build machine.
func compressCPIO(raw []byte) ([]byte, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression),
		zstd.WithWindowSize(kernelWindow), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, fmt.Errorf("compress cpio: %w", err)
	}
	packed := enc.EncodeAll(raw, nil)
	return packed, enc.Close()
}
