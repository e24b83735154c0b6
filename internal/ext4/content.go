package ext4

import (
	"encoding/binary"
	"io"
)

// Modes and flags of inodes.
const (
	isDirectory = 0o040000
	isFile      = 0o100000
	hasExtents  = 0x80000
)

// writeContent writes the two directories and an empty journal.
func (l layout) writeContent(w io.WriterAt) error {
	root := directory(rootInode, rootInode, entry{firstInode, "lost+found"})
	at := l.directories()
	if _, err := w.WriteAt(append(root, directory(firstInode, rootInode)...), at*block); err != nil || !l.Journal {
		return err
	}
	j := make([]byte, block) // the journal is big-endian (jbd2)
	for i, v := range []uint32{0xC03B3998, 4, 0, block, uint32(l.journalLength()), 1, 1, 0} {
		binary.BigEndian.PutUint32(j[4*i:], v)
	}
	copy(j[48:], l.uuid[:])
	binary.BigEndian.PutUint32(j[64:], 1) // number of users
	_, err := w.WriteAt(j, (at+2)*block)
	return err
}

type entry struct {
	inode uint32
	name  string
}

// directory returns the block of a directory.
func directory(self, parent uint32, more ...entry) []byte {
	var b []byte
	entries := append([]entry{{self, "."}, {parent, ".."}}, more...)
	for i, e := range entries {
		length := (8 + len(e.name) + 3) &^ 3
		if i == len(entries)-1 {
			length = block - len(b)
		}
		one := make([]byte, length)
		copy(one, fields(e.inode, uint16(length), uint8(len(e.name)), uint8(2)))
		copy(one[8:], e.name)
		b = append(b, one...)
	}
	return b
}

// writeTable writes the inodes in use, at the beginning of the first group's inode table. The group's descriptor says
// that the others are unused.
func (l layout) writeTable(w io.WriterAt) error {
	b := make([]byte, block)
	set := func(number int64, inode []byte) { copy(b[(number-1)*inodeSize:], inode) }
	at := l.directories()
	set(rootInode, l.inode(isDirectory|0o755, 3, at, 1))
	set(firstInode, l.inode(isDirectory|0o700, 2, at+1, 1))
	if l.Journal {
		set(journalInode, l.inode(isFile|0o600, 1, at+2, l.journalLength()))
	}
	_, err := w.WriteAt(b, (l.head(0)+2)*block)
	return err
}

// inode returns an inode with one extent.
func (l layout) inode(mode, links uint16, at, blocks int64) []byte {
	now := uint32(l.Now)
	b := make([]byte, inodeSize)
	put := func(at int, values ...any) { copy(b[at:], fields(values...)) }
	put(
		0,
		mode,
		uint16(0),
		uint32(blocks*block),
		now,
		now,
		now,
		uint32(0),
		uint16(0),
		links,
		uint32(blocks*block/512),
		uint32(hasExtents),
	)
	put(40, uint16(0xF30A), uint16(1), uint16(4), uint16(0), uint32(0)) // one of four extents, no tree
	put(52, uint32(0), uint16(blocks), uint16(at>>32), uint32(at))
	put(128, uint16(32))
	put(144, now)
	return b
}
