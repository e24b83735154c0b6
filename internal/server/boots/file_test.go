package boots

import (
	"errors"
	"io/fs"
	"testing"

	"pando/internal/tftp"
)

// Old ROMs request the name with the bytes that follow it in the DHCP packet. TFTP's clean leaves the number of an
// option.
func TestLoaderNameWithWhatFollowsIt(t *testing.T) {
	s := &loaders{files: Files{Data: map[string][]byte{
		"undionly.kpxe": []byte("bios"), "ipxe.efi": []byte("all"), "ipxe.efi.signed": []byte("signed")}}}
	for name, want := range map[string]string{
		"undionly.kpxe": "bios", "undionly.kpxe+": "bios", "undionly.kpxeC": "bios", "undionly.kpxe6x": "bios",
		"ipxe.efi": "all", "ipxe.efi.signed": "signed", "ipxe.efi.signedR": "signed", "ipxe.efi.s": "all",
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
	for _, name := range []string{"", "undionly", "undionly.kpx", "a/undionly.kpxe", "pxelinux.0"} {
		if _, err := s.OpenTFTP(t.Context(), tftp.Request{Name: name}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
