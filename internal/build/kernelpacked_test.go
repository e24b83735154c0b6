package build

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// fakeARM64 is the least that UEFI would start as a kernel of arm64: the kernel's header, which is the head of an
// EFI program, and one section.
func fakeARM64(t *testing.T, machine uint16) []byte {
	t.Helper()
	const size = 4096
	b := make([]byte, 64, size)
	copy(b, "MZ")
	copy(b[56:], "ARM\x64")
	binary.LittleEndian.PutUint32(b[60:], 64)
	var head bytes.Buffer
	head.WriteString("PE\x00\x00")
	for _, part := range []any{pe.FileHeader{Machine: machine, NumberOfSections: 1},
		pe.SectionHeader32{Name: [8]uint8{'.', 't', 'e', 'x', 't'}, SizeOfRawData: size - 1024, PointerToRawData: 1024}} {
		if err := binary.Write(&head, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return append(b, head.Bytes()...)[:size]
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestKernelOfARM64(t *testing.T) {
	whole := fakeARM64(t, pe.IMAGE_FILE_MACHINE_ARM64)
	zboot := slices.Concat([]byte("MZ\x00\x00zimg"), make([]byte, 48), []byte{0, 0, 0, 0}, whole[60:])
	packed := gzipped(t, whole)
	bare := slices.Clone(whole)
	clear(bare[:4])
	for name, tt := range map[string]struct {
		kernel []byte
		want   string // in the error
	}{
		"plain": {whole, ""}, "packed": {gzipped(t, whole), ""}, "unpacks itself": {zboot, ""},
		"cut off":              {whole[:3000], "cut off"},
		"packed, cut off":      {gzipped(t, whole)[:60], "EOF"},
		"packed, of amd64":     {gzipped(t, fakeKernel("6.1.0")), "not a kernel image for arm64"},
		"no EFI program":       {bare, "CONFIG_EFI_STUB"},
		"for another machine":  {fakeARM64(t, pe.IMAGE_FILE_MACHINE_AMD64), "not for arm64"},
		"neither of these two": {[]byte(strings.Repeat("hello ", 1000)), "not a kernel image for amd64 or arm64"},
	} {
		tree := t.TempDir()
		put(t, filepath.Join(tree, "boot/vmlinuz-6.1.0"), tt.kernel)
		put(t, filepath.Join(tree, "usr/lib/modules/6.1.0/kernel/x"), []byte("m"))
		k, err := KernelOf(tree)
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %q", name, err, tt.want)
			}
			continue
		}
		if err != nil || k.Architecture != "arm64" {
			t.Errorf("%s: %+v, %v", name, k, err)
			continue
		}
		root, err := os.OpenRoot(tree)
		if err != nil {
			t.Fatal(err)
		}
		sent, err := sentKernel(root, k)
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case name == "unpacks itself" && !bytes.Equal(sent, tt.kernel):
			t.Errorf("%s: packed once more", name)
		case name != "unpacks itself" && !bytes.Equal(sent, packed): // whoever packed it before
			t.Errorf("%s: %d bytes are sent, not the %d of the kernel packed here", name, len(sent), len(packed))
		}
		root.Close()
	}
}
