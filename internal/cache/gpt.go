package cache

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"unicode/utf16"
)

// PartitionName is the name of a cache's partition, by which a node finds it.
const PartitionName = "pando-cache"

// GUID is an identifier of a partition table, in the order of its bytes on the disk.
type GUID [16]byte

// Types of partitions.
var (
	// TypeCache is Pando's type, b5a27c4e-90f3-4d1e-8a52-6b0e5f1d7c93.
	TypeCache = GUID{0x4e, 0x7c, 0xa2, 0xb5, 0xf3, 0x90, 0x1e, 0x4d, 0x8a, 0x52, 0x6b, 0x0e, 0x5f, 0x1d, 0x7c, 0x93}
	// TypeEFISystem is the type of UEFI's system partition, c12a7328-f81f-11d2-ba4b-00a0c93ec93b.
	TypeEFISystem = GUID{0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b}
)

// Partition is one entry of a GUID partition table.
type Partition struct {
	Type, ID    GUID // ID zero: WritePartitions makes one
	Start, Size int64
	Name        string // at most 36 characters
	Attributes  uint64
}

const (
	gptEntries   = 128
	gptEntrySize = 128
	gptHeader    = 92
	gptSpan      = gptEntries * gptEntrySize // bytes of the array of entries
	protective   = 0xee
)

var (
	gptMagic = []byte("EFI PART")

	// ErrNoTable means that a disk has no GUID partition table.
	ErrNoTable = errors.New("no GUID partition table")
)

// Usable returns the range of a disk that partitions may use, for its sector size: the first byte, and the one after
// the last. Both are multiples of a mebibyte.
func Usable(size int64, sectorSize int) (from, to int64) {
	const align = 1 << 20
	return align, (size - gptSpan - int64(sectorSize)) / align * align
}

// WritePartitions replaces the partition table of a disk of size bytes, front and back. It overwrites the boot code in
// the first sector with zeros.
func WritePartitions(a Area, size int64, sectorSize int, parts []Partition) error {
	if err := checkPartitions(size, sectorSize, parts); err != nil {
		return fmt.Errorf("write partition table: %w", err)
	}
	var disk GUID
	rand.Read(disk[:])
	array := make([]byte, gptSpan)
	for i, p := range parts {
		p.encode(array[i*gptEntrySize:], int64(sectorSize))
	}
	sectors := size / int64(sectorSize)
	span := int64(gptSpan / sectorSize)
	// The copy at the back first: if the power fails, the disk has the old table or a complete new one.
	for _, w := range []struct {
		at   int64 // sector
		data []byte
	}{
		{sectors - 1 - span, array},
		{sectors - 1, gptHead(disk, array, sectors, sectorSize, sectors-1)},
		{2, array},
		{1, gptHead(disk, array, sectors, sectorSize, 1)},
		{0, protectiveMBR(sectors, sectorSize)},
	} {
		if _, err := a.WriteAt(w.data, w.at*int64(sectorSize)); err != nil {
			return fmt.Errorf("write partition table: %w", err)
		}
	}
	if err := a.Sync(); err != nil {
		return fmt.Errorf("write partition table: %w", err)
	}
	return nil
}

func checkPartitions(size int64, sectorSize int, parts []Partition) error {
	from, to := Usable(size, sectorSize)
	switch {
	case sectorSize != 512 && sectorSize != 4096:
		return fmt.Errorf("sectors of %d bytes are not supported: 512 or 4096", sectorSize)
	case len(parts) > gptEntries:
		return fmt.Errorf("%d partitions: at most 128", len(parts))
	}
	for i, p := range parts {
		if p.Start < from || p.Size <= 0 || p.Start+p.Size > to || p.Start%int64(sectorSize) != 0 ||
			p.Size%int64(sectorSize) != 0 {
			return fmt.Errorf(
				"partition %d, %d bytes at %d, does not fit a disk of %d bytes",
				i+1,
				p.Size,
				p.Start,
				size,
			)
		}
		if len(utf16.Encode([]rune(p.Name))) > 36 {
			return fmt.Errorf("partition %d: the name is longer than 36 characters", i+1)
		}
		for _, other := range parts[:i] {
			if p.Start < other.Start+other.Size && other.Start < p.Start+p.Size {
				return fmt.Errorf("partition %d overlaps another", i+1)
			}
		}
	}
	return nil
}

func (p Partition) encode(b []byte, sectorSize int64) {
	if p.ID == (GUID{}) {
		rand.Read(p.ID[:])
		p.ID[7], p.ID[8] = p.ID[7]&0x0f|0x40, p.ID[8]&0x3f|0x80 // a random UUID
	}
	copy(b, p.Type[:])
	copy(b[16:], p.ID[:])
	binary.LittleEndian.PutUint64(b[32:], uint64(p.Start/sectorSize))
	binary.LittleEndian.PutUint64(b[40:], uint64((p.Start+p.Size)/sectorSize-1))
	binary.LittleEndian.PutUint64(b[48:], p.Attributes)
	for i, u := range utf16.Encode([]rune(p.Name)) {
		binary.LittleEndian.PutUint16(b[56+2*i:], u)
	}
}

// gptHead returns the header for sector at.
func gptHead(disk GUID, array []byte, sectors int64, sectorSize int, at int64) []byte {
	b := make([]byte, sectorSize)
	span := int64(gptSpan / sectorSize)
	other, entries := sectors-1, int64(2)
	if at != 1 {
		other, entries = 1, sectors-1-span
	}
	copy(b, gptMagic)
	binary.LittleEndian.PutUint32(b[8:], 1<<16)
	binary.LittleEndian.PutUint32(b[12:], gptHeader)
	binary.LittleEndian.PutUint64(b[24:], uint64(at))
	binary.LittleEndian.PutUint64(b[32:], uint64(other))
	binary.LittleEndian.PutUint64(b[40:], uint64(2+span))
	binary.LittleEndian.PutUint64(b[48:], uint64(sectors-2-span))
	copy(b[56:], disk[:])
	binary.LittleEndian.PutUint64(b[72:], uint64(entries))
	binary.LittleEndian.PutUint32(b[80:], gptEntries)
	binary.LittleEndian.PutUint32(b[84:], gptEntrySize)
	binary.LittleEndian.PutUint32(b[88:], crc32.ChecksumIEEE(array))
	binary.LittleEndian.PutUint32(b[16:], crc32.ChecksumIEEE(b[:gptHeader]))
	return b
}

// protectiveMBR returns the first sector. It tells programs that do not know GUID partition tables that the disk is not
// empty.
func protectiveMBR(sectors int64, sectorSize int) []byte {
	b := make([]byte, sectorSize)
	e := b[446:]
	copy(e[1:], []byte{0, 2, 0, protective, 0xff, 0xff, 0xff})
	binary.LittleEndian.PutUint32(e[8:], 1)
	binary.LittleEndian.PutUint32(e[12:], uint32(min(sectors-1, 1<<32-1)))
	b[510], b[511] = 0x55, 0xaa
	return b
}

// ReadPartitions returns the partitions of a disk, from the table at the front, or else from the one at the back. The
// error is ErrNoTable if there is neither.
func ReadPartitions(a Area, size int64, sectorSize int) ([]Partition, error) {
	for _, at := range []int64{1, size/int64(sectorSize) - 1} {
		b := make([]byte, sectorSize)
		if _, err := a.ReadAt(b, at*int64(sectorSize)); err != nil {
			return nil, fmt.Errorf("read partition table: %w", err)
		}
		sum := binary.LittleEndian.Uint32(b[16:])
		binary.LittleEndian.PutUint32(b[16:], 0)
		if !slices.Equal(b[:8], gptMagic) || crc32.ChecksumIEEE(b[:gptHeader]) != sum ||
			binary.LittleEndian.Uint32(b[80:]) != gptEntries || binary.LittleEndian.Uint32(b[84:]) != gptEntrySize {
			continue
		}
		array := make([]byte, gptSpan)
		if _, err := a.ReadAt(array, int64(binary.LittleEndian.Uint64(b[72:]))*int64(sectorSize)); err != nil {
			return nil, fmt.Errorf("read partition table: %w", err)
		}
		if crc32.ChecksumIEEE(array) == binary.LittleEndian.Uint32(b[88:]) {
			return decodePartitions(array, int64(sectorSize)), nil
		}
	}
	return nil, ErrNoTable
}

func decodePartitions(array []byte, sectorSize int64) []Partition {
	var out []Partition
	for b := range slices.Chunk(array, gptEntrySize) {
		p := Partition{Type: GUID(b), ID: GUID(b[16:]), Attributes: binary.LittleEndian.Uint64(b[48:])}
		if p.Type == (GUID{}) {
			continue
		}
		first := int64(binary.LittleEndian.Uint64(b[32:]))
		p.Start, p.Size = first*sectorSize, (int64(binary.LittleEndian.Uint64(b[40:]))-first+1)*sectorSize
		var name []uint16
		for i := 56; i < gptEntrySize; i += 2 {
			u := binary.LittleEndian.Uint16(b[i:])
			if u == 0 {
				break
			}
			name = append(name, u)
		}
		p.Name = string(utf16.Decode(name))
		out = append(out, p)
	}
	return out
}

// Section is a part of an area, such as a partition of a disk.
type Section struct {
	Area
	Start int64 // bytes
}

// ReadAt reads at an offset of the section.
func (s Section) ReadAt(p []byte, off int64) (int, error) { return s.Area.ReadAt(p, s.Start+off) }

// WriteAt writes at an offset of the section.
func (s Section) WriteAt(p []byte, off int64) (int, error) { return s.Area.WriteAt(p, s.Start+off) }
