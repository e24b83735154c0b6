package loaderkit

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
)

// EFI describes a made-up EFI program.
type EFI struct {
	Machine   uint16 // pe.IMAGE_FILE_MACHINE_AMD64, ...
	Subsystem uint16 // 0: of an EFI application
	Words     []byte // the program's bytes
	Signature []byte // nil: it has none
}

// Bytes returns the file.
func (e EFI) Bytes() []byte {
	if e.Subsystem == 0 {
		e.Subsystem = pe.IMAGE_SUBSYSTEM_EFI_APPLICATION
	}
	const headers = 0x200
	var directories [16]pe.DataDirectory
	if e.Signature != nil {
		directories[pe.IMAGE_DIRECTORY_ENTRY_SECURITY] = pe.DataDirectory{
			VirtualAddress: headers + uint32(len(e.Words)), Size: uint32(len(e.Signature)),
		}
	}
	var optional any = pe.OptionalHeader64{
		Magic: 0x20b, SizeOfHeaders: headers, Subsystem: e.Subsystem, NumberOfRvaAndSizes: 16,
		DataDirectory: directories,
	}
	if e.Machine == pe.IMAGE_FILE_MACHINE_I386 {
		optional = pe.OptionalHeader32{
			Magic: 0x10b, SizeOfHeaders: headers, Subsystem: e.Subsystem, NumberOfRvaAndSizes: 16,
			DataDirectory: directories,
		}
	}
	dos := make([]byte, 64)
	copy(dos, "MZ")
	binary.LittleEndian.PutUint32(dos[0x3c:], uint32(len(dos)))
	var out bytes.Buffer
	out.Write(dos)
	out.WriteString("PE\x00\x00")
	for _, header := range []any{
		pe.FileHeader{Machine: e.Machine, NumberOfSections: 1, SizeOfOptionalHeader: uint16(binary.Size(optional))},
		optional,
		pe.SectionHeader32{
			Name: [8]uint8{'.', 't', 'e', 'x', 't'}, SizeOfRawData: uint32(len(e.Words)), PointerToRawData: headers,
		},
	} {
		_ = binary.Write(&out, binary.LittleEndian, header) // a buffer takes everything
	}
	out.Write(make([]byte, headers-out.Len()))
	out.Write(e.Words)
	out.Write(e.Signature)
	return out.Bytes()
}

// IPXE returns what looks like a build of iPXE for UEFI. With digests it has the command sha256sum.
func IPXE(machine uint16, version string, digests bool) EFI {
	words := "\x00iPXE initialising devices\x00\x00imgfetch\x00"
	if digests {
		words += "\x00sha256sum\x00"
	}
	words += "ipxe,1,iPXE,snponly.efi," + version + ",https://ipxe.org\n"
	return EFI{Machine: machine, Words: []byte(words)}
}

// BIOS returns what looks like iPXE's undionly.kpxe.
func BIOS() []byte { return append([]byte{0xea, 0x05, 0, 0xc0, 0x07}, "\x00PXE->EB:\x00compressed"...) }
