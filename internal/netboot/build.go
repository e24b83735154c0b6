package netboot

import (
	"bytes"
	"debug/pe"
	"errors"
	"fmt"
	"regexp"
)

// Build is what a build of iPXE says about itself.
type Build struct {
	Class   Class
	Version string // "2.0.0+dfsg-5"; "": it does not say
	Digests bool   // it has the command sha256sum, with which a script verifies what it fetched
	Signed  bool   // it has a signature for Secure Boot, whoever made it
}

// ErrNotLoader means that a file is no build of iPXE that firmware starts from the network.
var ErrNotLoader = errors.New("not a boot loader that machines can be sent")

// MaxLoader is how large a loader may be, in bytes; builds with all drivers have 1.1 MB.
const MaxLoader = 8 << 20

var (
	// sbat is iPXE's line in the section .sbat, which says what was built (https://github.com/rhboot/shim, SBAT.md).
	sbat = regexp.MustCompile(`ipxe,\d+,iPXE,[^,\n]*,([^,\n]+),`)
	// product is the version among the strings of older builds.
	product = regexp.MustCompile(`\x00(\d+\.\d+\.\d+[-+.~0-9A-Za-z]*)\x00`)
	// machines are the classes by the machine of a PE file.
	machines = map[uint16]Class{
		pe.IMAGE_FILE_MACHINE_AMD64: ClassX64, pe.IMAGE_FILE_MACHINE_I386: ClassIA32,
		pe.IMAGE_FILE_MACHINE_ARM64: ClassARM64,
	}
)

// sha256sum is the command's name among the strings of a build. Builds for BIOS are compressed, and have it in no
// release.
var sha256sum = []byte("\x00sha256sum\x00")

// InspectLoader reads what a file is, from its own words. It returns ErrNotLoader for what is not iPXE, or not a file
// that firmware of a known class starts.
func InspectLoader(data []byte) (Build, error) {
	var b Build
	switch {
	case len(data) == 0:
		return b, fmt.Errorf("%w: it is empty", ErrNotLoader)
	case len(data) > MaxLoader:
		return b, fmt.Errorf("%w: it is larger than %d bytes", ErrNotLoader, MaxLoader)
	case !bytes.HasPrefix(data, []byte("MZ")):
		return inspectBIOS(data)
	}
	f, err := pe.NewFile(bytes.NewReader(data))
	if err != nil {
		return b, fmt.Errorf("%w: it is no EFI program: %v", ErrNotLoader, err)
	}
	defer f.Close()
	for _, s := range f.Sections {
		if s.Offset > 0 && int64(s.Offset)+int64(s.Size) > int64(len(data)) {
			return b, fmt.Errorf("%w: it is the beginning of an EFI program, without its section %s", ErrNotLoader,
				s.Name)
		}
	}
	known := false
	if b.Class, known = machines[f.Machine]; !known {
		return b, fmt.Errorf("%w: it is an EFI program for machines of type %#x", ErrNotLoader, f.Machine)
	}
	var directories []pe.DataDirectory
	var subsystem uint16
	switch h := f.OptionalHeader.(type) {
	case *pe.OptionalHeader32:
		directories, subsystem = h.DataDirectory[:], h.Subsystem
	case *pe.OptionalHeader64:
		directories, subsystem = h.DataDirectory[:], h.Subsystem
	}
	if subsystem != pe.IMAGE_SUBSYSTEM_EFI_APPLICATION {
		return b, fmt.Errorf("%w: it is no EFI application", ErrNotLoader)
	}
	if !bytes.Contains(data, []byte("iPXE")) {
		return b, fmt.Errorf("%w: it is an EFI application, but not iPXE", ErrNotLoader)
	}
	signature := directories[pe.IMAGE_DIRECTORY_ENTRY_SECURITY] // its address is an offset in the file
	if int64(signature.VirtualAddress)+int64(signature.Size) > int64(len(data)) {
		return b, fmt.Errorf("%w: it is the beginning of an EFI program, without its signature", ErrNotLoader)
	}
	b.Signed = signature.Size > 0
	b.Digests = bytes.Contains(data, sha256sum)
	b.Version = versionIn(data)
	return b, nil
}

// inspectBIOS takes what iPXE's PXE images begin with: a far jump, and soon after it what they print first
// (src/arch/x86/prefix/pxeprefix.S). The rest is compressed, so the version is not to be seen.
func inspectBIOS(data []byte) (Build, error) {
	head := data[:min(len(data), 4096)]
	if data[0] != 0xea || !bytes.Contains(head, []byte("PXE->EB:")) {
		return Build{}, fmt.Errorf("%w: it is neither an EFI program nor a PXE image of iPXE (undionly.kpxe, ipxe.pxe)",
			ErrNotLoader)
	}
	return Build{Class: ClassBIOS}, nil
}

func versionIn(data []byte) string {
	for _, r := range []*regexp.Regexp{sbat, product} {
		if m := r.FindSubmatch(data); m != nil {
			return string(m[1])
		}
	}
	return ""
}
