package boots

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"pando/internal/bootloader"
	"pando/internal/tftp"
)

// Old ROMs request the name with the bytes that follow it in the DHCP packet. TFTP's clean leaves the number of an
// option.
func TestLoaderNameWithWhatFollowsIt(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{"undionly.kpxe": "bios", "snponly.efi": "snp", "ipxe.efi": "not chosen"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := bootloader.Open("", dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &loaders{files: files}
	for name, want := range map[string]string{
		"undionly.kpxe": "bios", "undionly.kpxe+": "bios", "undionly.kpxeC": "bios", "undionly.kpxe6x": "bios",
		"snponly.efi": "snp", "snponly.efi.s": "snp",
	} {
		c, err := s.OpenTFTP(t.Context(), tftp.Request{Name: name})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b := make([]byte, c.Size())
		if _, err := c.ReadAt(b, 0); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v, want %q", name, b, err, want)
		}
	}
	for _, name := range []string{"", "undionly", "undionly.kpx", "a/undionly.kpxe", "pxelinux.0", "ipxe.efi"} {
		if _, err := s.OpenTFTP(t.Context(), tftp.Request{Name: name}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
