package testkit

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
)

// FakeARM64 makes the smallest file that UEFI would start as an arm64 kernel: the kernel's header, which is also the
// header of an EFI program, and one section.
func FakeARM64(t TB, machine uint16) []byte {
	t.Helper()
	const size = 4096
	b := make([]byte, 64, size)
	copy(b, "MZ")
	copy(b[56:], "ARM\x64")
	binary.LittleEndian.PutUint32(b[60:], 64)
	var head bytes.Buffer
	head.WriteString("PE\x00\x00")
	for _, part := range []any{pe.FileHeader{Machine: machine, NumberOfSections: 1},
		pe.SectionHeader32{Name: [8]uint8{'.', 't', 'e', 'x', 't'}, SizeOfRawData: size - 1024,
			PointerToRawData: 1024}} {
		if err := binary.Write(&head, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return append(b, head.Bytes()...)[:size]
}
