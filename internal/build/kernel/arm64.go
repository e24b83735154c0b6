package kernel

import (
	"bytes"
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
)

// maxKernel bounds the size of an unpacked kernel in bytes; Debian's for arm64 has 32 MB.
const maxKernel = 256 << 20

// Read returns a kernel in the form that nodes load. It compresses a plain arm64 kernel, which does not unpack
// itself, with gzip: iPXE for arm64 unpacks that. The compressor's version is pinned, so that the same kernel keeps
// its digest.
func Read(root *os.Root, k Kernel) ([]byte, error) {
	data, err := readKernel(root, k.Path)
	if err != nil || k.Architecture != "arm64" || string(data[4:8]) == "zimg" {
		return data, err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = z.Write(data)
	err = errors.Join(err, z.Close()) // before the buffer is read
	return b.Bytes(), err
}

var gzipMagic = []byte{0x1f, 0x8b}

// readKernel reads a kernel and unpacks gzip, with which some distributions pack kernels for arm64.
func readKernel(root *os.Root, name string) ([]byte, error) {
	data, err := root.ReadFile(name)
	if err != nil || !bytes.HasPrefix(data, gzipMagic) {
		return data, err
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("/%s: %w", name, err)
	}
	data, err = io.ReadAll(io.LimitReader(z, maxKernel+1))
	if err == nil && len(data) > maxKernel {
		err = fmt.Errorf("unpacked it has more than %d MB", maxKernel>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("/%s: %w", name, err)
	}
	return data, nil
}

// isARM64 reports from the head of a file whether it is a kernel for arm64 (Linux,
// Documentation/arch/arm64/booting.rst) or an EFI program that unpacks one
// (drivers/firmware/efi/libstub/zboot-header.S).
func isARM64(head []byte) bool {
	return len(head) > 64 &&
		(string(head[56:60]) == "ARM\x64" || string(head[:2]) == "MZ" && string(head[4:8]) == "zimg")
}

// checkEFI checks that UEFI, the only firmware of arm64 nodes, can start a kernel, and that the file is complete.
func checkEFI(r io.ReaderAt, size int64, k Kernel) error {
	f, err := pe.NewFile(r)
	magic := make([]byte, 2)
	if _, e := r.ReadAt(magic, 0); e != nil ||
		err == nil && string(magic) != "MZ" { // pe.NewFile also accepts an object file without an MZ header
		err = errors.New("it does not begin with MZ")
	}
	if err != nil {
		return fmt.Errorf(
			"/%s is no EFI program, or is cut off (%w): build the kernel with CONFIG_EFI_STUB",
			k.Path,
			err,
		)
	}
	if f.Machine != pe.IMAGE_FILE_MACHINE_ARM64 {
		return fmt.Errorf("/%s is an EFI program for machines of kind %#x, not for arm64", k.Path, f.Machine)
	}
	if len(f.Sections) == 0 {
		return errors.New("/" + k.Path + " is an EFI program without sections")
	}
	for _, s := range f.Sections {
		if want := int64(s.Offset) + int64(s.Size); size < want {
			return fmt.Errorf("/%s is cut off: %d bytes of %d", k.Path, size, want)
		}
	}
	return nil
}
