package hostcheck

import (
	"debug/pe"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/bootloader"
	"pando/internal/testkit/loaderkit"
)

// TestLoadersThatVerifyNothing: each firmware whose loader leaves kernel+initrd to the server has one line that says
// what it costs and what to do.
func TestLoadersThatVerifyNothing(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	write := func(path string, b []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	look := func() (all []Finding, notes string) {
		all = checkBootFiles(t.Context(), Options{BootFiles: dir, Data: data})
		for _, f := range all {
			if f.Level == note {
				notes += f.Message + " fix: " + f.Fix + "\n"
			}
		}
		return all, notes
	}
	write(filepath.Join(dir, "undionly.kpxe"), loaderkit.BIOS())
	write(filepath.Join(dir, "snponly.efi"), loaderkit.IPXE(pe.IMAGE_FILE_MACHINE_AMD64, "1.21.1", false).Bytes())
	all, notes := look()
	if len(all) != 3 || all[0].Level != Fine || strings.Count(notes, "about 17 MB for each node") != 2 ||
		!strings.Contains(notes, "efi-x64 firmware: snponly.efi verifies no digests") ||
		!strings.Contains(notes, "`pando loader import`") || !strings.Contains(notes, "boot machines by UEFI") {
		t.Errorf("older builds: %s", texts(all))
	}
	imported := filepath.Join(data, bootloader.ImportDir, "snponly.efi")
	write(imported, loaderkit.IPXE(pe.IMAGE_FILE_MACHINE_AMD64, "2.0.0", true).Bytes())
	if all, notes = look(); strings.Contains(notes, "efi-x64") || !strings.Contains(notes, "bios") ||
		!strings.Contains(all[0].Message, dir+" and "+filepath.Dir(imported)) {
		t.Errorf("one that verifies is imported: %s", texts(all))
	}
	write(imported, []byte("damaged"))
	if all, _ = look(); len(all) != 4 || all[1].Level != Warning || !strings.Contains(all[1].Message, imported) {
		t.Errorf("damaged: %s", texts(all))
	}
}
