package kernel

import (
	"bytes"
	"debug/pe"
	"os"
	"pando/internal/testkit"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

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
	whole := testkit.FakeARM64(t, pe.IMAGE_FILE_MACHINE_ARM64)
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
		"packed, of amd64":     {gzipped(t, testkit.FakeKernel("6.1.0")), "not a kernel image for arm64"},
		"no EFI program":       {bare, "CONFIG_EFI_STUB"},
		"for another machine":  {testkit.FakeARM64(t, pe.IMAGE_FILE_MACHINE_AMD64), "not for arm64"},
		"neither of these two": {[]byte(strings.Repeat("hello ", 1000)), "not a kernel image for amd64 or arm64"},
	} {
		tree := t.TempDir()
		testkit.Put(t, filepath.Join(tree, "boot/vmlinuz-6.1.0"), tt.kernel)
		testkit.Put(t, filepath.Join(tree, "usr/lib/modules/6.1.0/kernel/x"), []byte("m"))
		k, err := Find(tree)
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
		sent, err := Read(root, k)
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
