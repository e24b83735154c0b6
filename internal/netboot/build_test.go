package netboot

import (
	"bytes"
	"debug/pe"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/testkit/loaderkit"
)

func TestInspectLoader(t *testing.T) {
	signed := loaderkit.IPXE(pe.IMAGE_FILE_MACHINE_AMD64, "2.0.0+dfsg-5", true)
	signed.Signature = []byte("a signature")
	older := loaderkit.EFI{Machine: pe.IMAGE_FILE_MACHINE_AMD64, Words: []byte("iPXE\x001.21.1+git20250501-1\x00")}
	silent := loaderkit.EFI{Machine: pe.IMAGE_FILE_MACHINE_AMD64, Words: []byte("iPXE sha256sums\x00")}
	tests := map[string]struct {
		data []byte
		want Build
	}{
		"x86-64": {
			loaderkit.IPXE(pe.IMAGE_FILE_MACHINE_AMD64, "2.0.0+dfsg-5", true).Bytes(),
			Build{Class: ClassX64, Version: "2.0.0+dfsg-5", Digests: true},
		},
		"signed": {signed.Bytes(), Build{Class: ClassX64, Version: "2.0.0+dfsg-5", Digests: true, Signed: true}},
		"x86": {
			loaderkit.IPXE(pe.IMAGE_FILE_MACHINE_I386, "2.0.0", true).Bytes(),
			Build{Class: ClassIA32, Version: "2.0.0", Digests: true},
		},
		"arm64": {
			loaderkit.IPXE(pe.IMAGE_FILE_MACHINE_ARM64, "2.0.0", false).Bytes(),
			Build{Class: ClassARM64, Version: "2.0.0"},
		},
		"without SBAT":      {older.Bytes(), Build{Class: ClassX64, Version: "1.21.1+git20250501-1"}},
		"without a version": {silent.Bytes(), Build{Class: ClassX64}},
		"BIOS":              {loaderkit.BIOS(), Build{Class: ClassBIOS}},
	}
	for name, tt := range tests {
		if got, err := InspectLoader(tt.data); err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, tt.want)
		}
	}
}

func TestInspectLoaderRefuses(t *testing.T) {
	whole := loaderkit.IPXE(pe.IMAGE_FILE_MACHINE_AMD64, "2.0.0", true)
	driver := whole
	driver.Subsystem = pe.IMAGE_SUBSYSTEM_EFI_BOOT_SERVICE_DRIVER
	riscv := whole
	riscv.Machine = pe.IMAGE_FILE_MACHINE_RISCV64
	signed := whole
	signed.Signature = []byte("a signature")
	cut := whole.Bytes()
	for name, tt := range map[string]struct {
		data []byte
		why  string
	}{
		"empty":          {nil, "it is empty"},
		"huge":           {make([]byte, MaxLoader+1), "larger than 8388608 bytes"},
		"text":           {[]byte("#!ipxe\nboot\n"), "neither an EFI program nor a PXE image"},
		"BIOS, not iPXE": {append([]byte{0xea}, "pxelinux"...), "neither an EFI program nor a PXE image"},
		"headers only":   {cut[:0x70], "it is no EFI program"},
		"MZ only":        {[]byte("MZ"), "it is no EFI program"},
		"cut":            {cut[:len(cut)-1], "without its section .text"},
		"cut signature":  {signed.Bytes()[:len(signed.Bytes())-1], "without its signature"},
		"driver":         {driver.Bytes(), "it is no EFI application"},
		"other machine":  {riscv.Bytes(), "it is an EFI program for machines of type 0x5064"},
		"other program": {
			loaderkit.EFI{Machine: pe.IMAGE_FILE_MACHINE_AMD64, Words: []byte("GRUB sha256sum")}.Bytes(),
			"but not iPXE",
		},
	} {
		if b, err := InspectLoader(tt.data); !errors.Is(err, ErrNotLoader) || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %+v, %v, want %q", name, b, err, tt.why)
		}
	}
}

// No damaged file makes the inspection fail in another way than by ErrNotLoader.
func TestInspectLoaderOfDamagedFiles(t *testing.T) {
	whole := loaderkit.IPXE(pe.IMAGE_FILE_MACHINE_AMD64, "2.0.0", true).Bytes()
	for at := range 0x200 {
		for _, b := range []byte{0, 0xff, whole[at] ^ 1} {
			data := bytes.Clone(whole)
			data[at] = b
			if _, err := InspectLoader(data); err != nil && !errors.Is(err, ErrNotLoader) {
				t.Fatalf("byte %d is %#x: %v", at, b, err)
			}
		}
	}
}

// The builds of Debian's package, whichever version is installed here.
func TestInspectDebiansLoaders(t *testing.T) {
	const dir = "/usr/lib/ipxe"
	for name, class := range map[string]Class{
		"undionly.kpxe": ClassBIOS, "ipxe.pxe": ClassBIOS, "snponly.efi": ClassX64, "ipxe.efi": ClassX64,
	} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Skip("Debian's package ipxe is not installed:", err)
			}
			b, err := InspectLoader(data)
			if err != nil || b.Class != class || b.Signed {
				t.Fatalf("%+v, %v", b, err)
			}
			t.Logf("%+v", b)
			if class != ClassBIOS && b.Version == "" {
				t.Error("no version found")
			}
			if _, err := InspectLoader(data[:len(data)/2]); class != ClassBIOS && !errors.Is(err, ErrNotLoader) {
				t.Errorf("half of the file: %v", err)
			}
		})
	}
	for _, name := range []string{"ipxe.lkrn", "ipxe.iso"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if b, err := InspectLoader(data[:min(len(data), MaxLoader)]); !errors.Is(err, ErrNotLoader) {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
}
