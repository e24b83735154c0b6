package media

import (
	"encoding/binary"
	"hash/crc32"
	"unicode/utf16"
)

// The partition table is a GPT (UEFI 2.10, chapter 5) of 128 entries, with its copy at the end of the disk.
const (
	entries   = 128
	entrySize = 128
	tableSize = Sector + entries*entrySize // one header with its entries
)

// guid is a GUID as it stands on the disk: its first three fields are little-endian.
type guid [16]byte

// Kinds of partitions.
var (
	kindBIOS  = guid{0x48, 0x61, 0x68, 0x21, 0x49, 0x64, 0x6f, 0x6e, 0x74, 0x4e, 0x65, 0x65, 0x64, 0x45, 0x46, 0x49}
	kindESP   = guid{0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b}
	kindLinux = guid{0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4}
	kindCache = guid{0x4e, 0x7c, 0xa2, 0xb5, 0xf3, 0x90, 0x1e, 0x4d, 0x8a, 0x52, 0x6b, 0x0e, 0x5f, 0x1d, 0x7c, 0x93}
)

// partition is one entry; at and size are bytes.
type partition struct {
	kind     guid
	name     string // ASCII
	at, size int64
}

// table makes both copies of the partition table of a disk. The first begins with the MBR's sector, the second is the
// disk's last tableSize bytes. seed makes the GUIDs of disk and partitions; it should be random.
func table(size int64, seed [16]byte, parts []partition, bootCode []byte) (first, last []byte) {
	list := make([]byte, entries*entrySize)
	for i, p := range parts {
		e := list[i*entrySize:]
		copy(e, p.kind[:])
		id := numbered(seed, byte(i+1))
		copy(e[16:], id[:])
		binary.LittleEndian.PutUint64(e[32:], uint64(p.at/Sector))
		binary.LittleEndian.PutUint64(e[40:], uint64((p.at+p.size)/Sector-1))
		for j, c := range utf16.Encode([]rune(p.name)) {
			binary.LittleEndian.PutUint16(e[56+2*j:], c)
		}
	}
	end := uint64(size/Sector - 1)
	listed := uint64(entries * entrySize / Sector)
	first = append(protectiveMBR(size, bootCode), header(1, end, 2, end, listed, seed, list)...)
	first = append(first, list...)
	last = append(list, header(end, 1, end-listed, end, listed, seed, list)...)
	return first, last
}

// header is one header of the table, in its sector; end is the disk's last sector.
func header(at, other, list, end, listed uint64, seed [16]byte, entriesList []byte) []byte {
	h := make([]byte, Sector)
	le := binary.LittleEndian
	copy(h, "EFI PART")
	le.PutUint32(h[8:], 0x10000)
	le.PutUint32(h[12:], 92)
	le.PutUint64(h[24:], at)
	le.PutUint64(h[32:], other)
	le.PutUint64(h[40:], 2+listed)     // first sector that a partition may use
	le.PutUint64(h[48:], end-listed-1) // and the last
	id := numbered(seed, 0)
	copy(h[56:], id[:])
	le.PutUint64(h[72:], list)
	le.PutUint32(h[80:], entries)
	le.PutUint32(h[84:], entrySize)
	le.PutUint32(h[88:], crc32.ChecksumIEEE(entriesList))
	le.PutUint32(h[16:], crc32.ChecksumIEEE(h[:92]))
	return h
}

// numbered makes the n-th GUID of a disk (RFC 9562, version 4, with the number in its last byte).
func numbered(seed [16]byte, n byte) guid {
	g := guid(seed)
	g[7] = g[7]&0x0f | 0x40
	g[8] = g[8]&0x3f | 0x80
	g[15] = n
	return g
}

// protectiveMBR covers the whole disk with one partition of a kind that old programs leave alone. Its boot code is what
// BIOS starts.
func protectiveMBR(size int64, bootCode []byte) []byte {
	b := make([]byte, Sector)
	copy(b[:440], bootCode)
	e := b[446:]
	copy(e, []byte{0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff})
	binary.LittleEndian.PutUint32(e[8:], 1)
	binary.LittleEndian.PutUint32(e[12:], uint32(min(size/Sector-1, 0xffffffff)))
	b[510], b[511] = 0x55, 0xaa
	return b
}
