package ext4

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
)

// Options are the settings of one file system.
type Options struct {
	Label   string // at most 16 bytes
	Journal bool   // with a journal, for data that must survive a power cut
	Now     int64  // Unix seconds
}

// Layout. Names are those of the kernel's fs/ext4/ext4.h.
const (
	block         = 4096
	groupBlocks   = 8 * block // as many as one bitmap describes
	inodeSize     = 256
	perInode      = 8192 // bytes of the device per inode; a root has small files
	descSize      = 32
	firstInode    = 11 // lost+found; the file system reserves the inodes before it
	rootInode     = 2
	journalInode  = 8
	journalBlocks = 4096 // 16 MiB
	maxBlocks     = 1<<32 - 1<<20
	inodeUnused   = 1 // flag of a group: its inode table and inode bitmap are not read
	blockUnused   = 2 // flag of a group: its block bitmap is not read
)

// Least is the smallest device in bytes, LeastWithJournal the smallest for a file system with a journal.
const (
	Least            int64 = 4 << 20
	LeastWithJournal int64 = 64 << 20
)

// layout says where the parts of the file system are.
type layout struct {
	Options
	blocks, groups, inodes int64 // inodes per group
	descs, table           int64 // blocks of the descriptors, and of one group's inode table
	uuid                   [16]byte
}

// Make writes an empty file system on a device of size bytes. What was there before is lost. It does not sync. There
// are no copies of super block and descriptors (sparse_super2).
func Make(w io.WriterAt, size int64, o Options) error {
	least := Least
	if o.Journal {
		least = LeastWithJournal
	}
	if size < least || len(o.Label) > 16 {
		return fmt.Errorf(
			"make ext4 called %q on %d bytes: it needs %d, and a name of at most 16 bytes",
			o.Label,
			size,
			least,
		)
	}
	l := lay(size, o)
	rand.Read(l.uuid[:])
	zero := make([]byte, block)
	// The super block is written last, so that interrupted work is no file system. The beginning of an older one is
	// cleared first.
	for at := range int64(16) {
		if _, err := w.WriteAt(zero, at*block); err != nil {
			return err
		}
	}
	for _, write := range []func(io.WriterAt) error{l.writeContent, l.writeTable, l.writeBitmaps, l.writeDescs} {
		if err := write(w); err != nil {
			return err
		}
	}
	_, err := w.WriteAt(l.super(), 1024)
	return err
}

// lay divides the device into groups. It leaves out a last group that would have room for little more than its own
// metadata.
func lay(size int64, o Options) layout {
	l := layout{Options: o, blocks: min(size/block, maxBlocks)}
	for {
		l.groups = (l.blocks + groupBlocks - 1) / groupBlocks
		perTable := int64(block / inodeSize)
		l.inodes = max((l.blocks*block/perInode/l.groups+perTable-1)/perTable*perTable, 2*perTable)
		l.descs = (l.groups*descSize + block - 1) / block
		l.table = l.inodes / perTable
		if last := l.blocks - (l.groups-1)*groupBlocks; l.groups == 1 || last >= l.table+2+64 {
			return l
		}
		l.blocks = (l.groups - 1) * groupBlocks
	}
}

// head returns how many blocks of a group precede its bitmaps. Only the first group has any: the super block and all
// descriptors (sparse_super2, no copies).
func (l layout) head(group int64) int64 {
	if group == 0 {
		return 1 + l.descs
	}
	return 0
}

// used returns how many blocks at the beginning of a group are in use.
func (l layout) used(group int64) int64 {
	n := l.head(group) + 2 + l.table
	if group == 0 {
		n += 2 + l.journalLength() // the root and lost+found
	}
	return n
}

func (l layout) size(group int64) int64 { return min(groupBlocks, l.blocks-group*groupBlocks) }

func (l layout) journalLength() int64 {
	switch {
	case !l.Journal:
		return 0
	case l.blocks < 4*journalBlocks+groupBlocks:
		return 1024 // the kernel's minimum
	}
	return journalBlocks
}

// directories returns the block of the root directory. lost+found and the journal follow it.
func (l layout) directories() int64 { return l.head(0) + 2 + l.table }

// fields encodes integers in little-endian order, one after the other.
func fields(values ...any) []byte {
	var b []byte
	for _, v := range values {
		b, _ = binary.Append(b, binary.LittleEndian, v) // cannot fail for integers of fixed size
	}
	return b
}
