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

// maxKernel bounds an unpacked kernel; Debian's of arm64 has 32 MB.
const maxKernel = 256 << 20

// Read is a kernel as nodes get it. One of arm64 does not unpack itself, and has 32 MB where it was not
// packed: iPXE for arm64 unpacks gzip. The packer is one whose version is pinned, so that a kernel keeps its name.
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
	err = errors.Join(err, z.Close()) // before its bytes are looked at
	return b.Bytes(), err
}

var gzipMagic = []byte{0x1f, 0x8b}

// readKernel reads a kernel, and unpacks it: some distributions have that of arm64 packed with gzip.
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

// isARM64 tells from the head of a kernel that it is one of arm64 (Linux, Documentation/arch/arm64/booting.rst), or
// an EFI program that unpacks one (drivers/firmware/efi/libstub/zboot-header.S).
func isARM64(head []byte) bool {
	return len(head) > 64 &&
		(string(head[56:60]) == "ARM\x64" || string(head[:2]) == "MZ" && string(head[4:8]) == "zimg")
}

// checkEFI looks whether UEFI can start a kernel of arm64, which has no other firmware here, and whether it is whole.
func checkEFI(r io.ReaderAt, size int64, k Kernel) error {
	f, err := pe.NewFile(r)
	magic := make([]byte, 2)
	if _, e := r.ReadAt(magic, 0); e != nil ||
		err == nil && string(magic) != "MZ" { // a bare object file, for package pe
		err = errors.New("it does not begin with MZ")
	}
	if err != nil {
		return fmt.Errorf(
			"/%s is no EFI program, or is cut off (%w): CONFIG_EFI_STUB makes one of a kernel",
			k.Path,
			err,
		)
	}
	if f.Machine != pe.IMAGE_FILE_MACHINE_ARM64 {
		return fmt.Errorf("/%s is an EFI program for machines of kind %#x, not for arm64", k.Path, f.Machine)
	}
	if len(f.Sections) == 0 {
		return errors.New("/" + k.Path + " is an EFI program of nothing")
	}
	for _, s := range f.Sections {
		if want := int64(s.Offset) + int64(s.Size); size < want {
			return fmt.Errorf("/%s is cut off: %d bytes of %d", k.Path, size, want)
		}
	}
	return nil
}
