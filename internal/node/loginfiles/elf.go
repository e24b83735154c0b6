package loginfiles

import (
	"bytes"
	"encoding/binary"
	"io"
)

// Sizes and constants of the ELF format (elf(5)), 64 bits, little-endian: Pando boots only such machines.
const (
	elfHeader  = 64
	elfProgram = 56
	elfLoad    = 1
	elfDynamic = 2
	elfInterp  = 3
	dynEntry   = 16
	dynNeeded  = 1
	dynStrings = 5
	elfMost    = 64 << 10 // largest table that is read, in bytes
)

// needs returns the names of the libraries that a program or library needs, and the path of its loader. For other
// files it returns nothing.
func needs(f io.ReaderAt) (libraries []string, loader string) {
	le := binary.LittleEndian
	head := part(f, 0, elfHeader)
	if head == nil || string(head[:6]) != "\x7fELF\x02\x01" {
		return nil, ""
	}
	headers := part(f, le.Uint64(head[32:]), uint64(le.Uint16(head[56:]))*elfProgram)
	var dynamic []byte
	at := func(address uint64) uint64 { // offset in the file of an address
		for h := headers; len(h) > 0; h = h[elfProgram:] {
			start := le.Uint64(h[16:])
			if le.Uint32(h) == elfLoad && address >= start && address-start < le.Uint64(h[32:]) {
				return address - start + le.Uint64(h[8:])
			}
		}
		return 1 << 62
	}
	for h := headers; len(h) > 0; h = h[elfProgram:] {
		switch le.Uint32(h) {
		case elfDynamic:
			dynamic = part(f, le.Uint64(h[8:]), le.Uint64(h[32:])/dynEntry*dynEntry)
		case elfInterp:
			loader = text(part(f, le.Uint64(h[8:]), le.Uint64(h[32:])))
		}
	}
	strings := uint64(1 << 62)
	for d := dynamic; len(d) > 0; d = d[dynEntry:] {
		if le.Uint64(d) == dynStrings {
			strings = at(le.Uint64(d[8:]))
		}
	}
	for d := dynamic; len(d) > 0; d = d[dynEntry:] {
		if le.Uint64(d) == dynNeeded {
			name := make([]byte, 256)
			n, _ := f.ReadAt(name, int64(strings+le.Uint64(d[8:]))) // the name may be at the end of the file
			libraries = append(libraries, text(name[:n]))
		}
	}
	return libraries, loader
}

// part returns size bytes of a file at an offset, nil if the file does not have them.
func part(f io.ReaderAt, at, size uint64) []byte {
	if size > elfMost || at > 1<<40 {
		return nil
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, int64(at)); err != nil {
		return nil
	}
	return b
}

// text returns the bytes before the first zero byte.
func text(b []byte) string {
	s, _, _ := bytes.Cut(b, []byte{0})
	return string(s)
}
