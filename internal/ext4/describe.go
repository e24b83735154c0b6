package ext4

import (
	"crypto/rand"
	"io"
)

// writeBitmaps writes the bitmaps of the first group and the block bitmap of the last group, which may be shorter
// than its bitmap. The flags of the other groups tell the kernel that they are empty.
func (l layout) writeBitmaps(w io.WriterAt) error {
	for _, g := range []int64{0, l.groups - 1} {
		if err := writeBitmap(w, g*groupBlocks+l.head(g), l.used(g), l.size(g)); err != nil {
			return err
		}
	}
	return writeBitmap(w, l.head(0)+1, firstInode, l.inodes)
}

// writeBitmap writes a bitmap. It sets the bits of the first used items, and of all beyond size, which do not exist.
func writeBitmap(w io.WriterAt, at, used, size int64) error {
	b := make([]byte, block)
	for i := range int64(8 * block) {
		if i < used || i >= size {
			b[i/8] |= 1 << (i % 8)
		}
	}
	_, err := w.WriteAt(b, at*block)
	return err
}

// writeDescs writes the descriptors of all groups.
func (l layout) writeDescs(w io.WriterAt) error {
	b := make([]byte, l.descs*block)
	for g := range l.groups {
		at := g*groupBlocks + l.head(g)
		var free, unused, dirs, flags = l.inodes, l.inodes, int64(0), inodeUnused | blockUnused
		if g == l.groups-1 {
			flags &^= blockUnused
		}
		if g == 0 {
			free, unused, dirs, flags = l.inodes-firstInode, l.inodes-firstInode, 2, 0
		}
		d := fields(
			uint32(at),
			uint32(at+1),
			uint32(at+2),
			uint16(l.size(g)-l.used(g)),
			uint16(free),
			uint16(dirs),
			uint16(flags),
			uint32(0),
			uint16(0),
			uint16(0),
			uint16(unused),
		)
		d = append(d, fields(crc16(crc16(crc16(0xffff, l.uuid[:]), fields(uint32(g))), d))...)
		copy(b[g*descSize:], d)
	}
	_, err := w.WriteAt(b, block)
	return err
}

// crc16 is the checksum of descriptors: polynomial 0x8005, lowest bit first.
func crc16(sum uint16, data []byte) uint16 {
	for _, c := range data {
		sum ^= uint16(c)
		for range 8 {
			low := sum & 1
			sum >>= 1
			if low != 0 {
				sum ^= 0xa001
			}
		}
	}
	return sum
}

// super returns the super block.
func (l layout) super() []byte {
	const (
		compatible   = 0x8 | 0x20 | 0x200             // ext_attr, dir_index, sparse_super2
		incompatible = 0x2 | 0x40                     // filetype, extents
		readOnly     = 0x2 | 0x8 | 0x10 | 0x20 | 0x40 // large_file, huge_file, gdt_csum, dir_nlink, extra_isize
		hasJournal   = 0x4
	)
	b := make([]byte, 1024)
	put := func(at int, values ...any) { copy(b[at:], fields(values...)) }
	free := l.blocks
	for _, g := range []int64{0, 1} {
		switch {
		case g == 0:
			free -= l.used(0)
		case l.groups > 1:
			free -= l.used(1) * (l.groups - 1)
		}
	}
	now, features := uint32(l.Now), uint32(compatible)
	if l.Journal {
		features |= hasJournal
		put(0xe0, uint32(journalInode))
	}
	put(
		0,
		uint32(l.groups*l.inodes),
		uint32(l.blocks),
		uint32(0),
		uint32(free),
		uint32(l.groups*l.inodes-firstInode),
		uint32(0),
		uint32(2),
		uint32(2),
		uint32(groupBlocks),
		uint32(groupBlocks),
		uint32(l.inodes),
		uint32(0),
		now,
	)
	put(54, uint16(0xffff), uint16(0xEF53), uint16(1), uint16(1), uint16(0), now)
	put(76, uint32(1))
	put(84, uint32(firstInode), uint16(inodeSize), uint16(0), features, uint32(incompatible), uint32(readOnly))
	copy(b[104:], l.uuid[:])
	copy(b[120:136], l.Label)
	rand.Read(b[236:252]) // seed of the hashes of file names
	put(252, uint8(1))    // hash algorithm: half MD4
	put(256, uint32(0xc)) // default mount options: user attributes and ACLs
	put(264, now)
	put(348, uint16(32), uint16(32), uint32(1))
	return b
}
