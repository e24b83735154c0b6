package imagefs

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"pando/internal/chunk"
)

// Squashfs 4.0 on disk, as far as an uncompressed image needs it (kernel: fs/squashfs/squashfs_fs.h). Each file
// begins at a multiple of 4 KiB. In an image of mksquashfs, which leaves no gaps, a file that grows moves all later
// ones, and the next version shares no chunk.
const (
	squashMagic     = 0x73717368
	squashSuperSize = 96
	squashBlock     = 16 << 10 // a node that reads one page fetches this much
	squashLog       = 14
	squashMeta      = 8 << 10 // bytes of a metadata block, after a header of 2
	squashRaw       = 1 << 24 // in a block list: the block is uncompressed
	squashRawMeta   = 1 << 15 // in the header of a metadata block: the block is uncompressed
	squashZlib      = 1       // the compressor field; not used, but the kernel must support it
	squashNone      = 0xffffffff
	squashNowhere   = 1<<64 - 1

	// Inodes, data, attributes and IDs are uncompressed; there are no fragments. An export table maps inode numbers
	// for file handles, which overlayfs needs.
	squashFlags    = 0x1 | 0x2 | 0x8 | 0x10 | 0x80 | 0x100 | 0x800
	squashNoXattrs = 0x200
)

// Types of basic inodes. The extended type is the basic one plus squashExtended.
const (
	squashDir = iota + 1
	squashFile
	squashLink
	squashBlockDevice
	squashCharDevice
	squashFifo
	squashSocket
	squashExtended = 7
)

// squashWriter writes a tree as squashfs.
type squashWriter struct {
	out  *bufio.Writer
	at   int64
	root string

	lists []string // files with access control lists, which squashfs cannot store

	nodes   []*treeNode // by inode number, which starts at 1
	inodes  squashTable
	dirs    squashTable
	ids     []uint32
	idIndex map[uint32]uint16
	refs    []uint64 // positions of inodes, by number

	xattrs     squashTable // names and values
	xattrIDs   squashTable // positions of the attributes of each inode
	xattrCount uint32
}

// SquashfsRevision must be raised for each change of this writer that gives other bytes for the same tree.
const SquashfsRevision = "1"

// WriteSquashfs writes the tree below root into a file. now is the time in the super block, Unix seconds. lost lists
// what the file system cannot represent.
func WriteSquashfs(ctx context.Context, root, file string, now int64) (lost []string, err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	w := &squashWriter{out: bufio.NewWriterSize(f, 1<<20), root: root, idIndex: map[uint32]uint16{}}
	tree, err := readTree(root, squashPrefixes)
	if err == nil {
		w.nodes, w.lists = tree.nodes, tree.lists
		err = w.pad(make([]byte, squashSuperSize))
	}
	if err != nil {
		return nil, err
	}
	for _, n := range w.nodes {
		if err := cmp.Or(ctx.Err(), w.data(n)); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(root, n.rel), err)
		}
	}
	w.refs = make([]uint64, len(w.nodes))
	if err := w.inode(w.nodes[0], uint32(len(w.nodes)+1)); err != nil {
		return nil, err
	}
	super, err := w.tables(w.refs[0], now)
	if err == nil {
		err = w.out.Flush()
	}
	if err == nil {
		_, err = f.WriteAt(super, 0)
	}
	return w.lost(), err
}

func (w *squashWriter) write(b []byte) error {
	n, err := w.out.Write(b)
	w.at += int64(n)
	return err
}

// pad writes b and fills the last block with zeros.
func (w *squashWriter) pad(b []byte) error {
	if err := w.write(b); err != nil {
		return err
	}
	if rest := w.at % chunk.BlockSize; rest > 0 {
		return w.write(make([]byte, chunk.BlockSize-rest))
	}
	return nil
}

// data writes the content of a regular file. Blocks of zeros are written too; the store makes no object for them.
func (w *squashWriter) data(n *treeNode) error {
	if n.kind != squashFile || n.size == 0 {
		return nil
	}
	f, err := os.Open(filepath.Join(w.root, n.rel))
	if err != nil {
		return err
	}
	defer f.Close()
	n.start = w.at
	buf := make([]byte, squashBlock)
	for left := n.size; left > 0; {
		b := buf[:min(left, squashBlock)]
		if _, err := io.ReadFull(f, b); err != nil {
			return fmt.Errorf("it was %d bytes long, and ends before: %w", n.size, err)
		}
		left -= int64(len(b))
		n.blocks = append(n.blocks, uint32(len(b))|squashRaw)
		if err := w.write(b); err != nil {
			return err
		}
	}
	return w.pad(nil)
}

// squashTable is a sequence of metadata blocks.
type squashTable struct {
	blocks []byte // complete blocks with their headers
	open   []byte // the last block, which is not full
}

// place returns the position of the next byte: the offset of its block in the table, and the offset in the block.
func (t *squashTable) place() uint64 { return uint64(len(t.blocks))<<16 | uint64(len(t.open)) }

func (t *squashTable) add(b []byte) {
	for len(b) > 0 {
		n := min(len(b), squashMeta-len(t.open))
		t.open, b = append(t.open, b[:n]...), b[n:]
		if len(t.open) == squashMeta {
			t.end()
		}
	}
}

func (t *squashTable) end() {
	if len(t.open) == 0 {
		return
	}
	t.blocks = binary.LittleEndian.AppendUint16(t.blocks, uint16(len(t.open))|squashRawMeta)
	t.blocks, t.open = append(t.blocks, t.open...), nil
}

// fields encodes numbers in little-endian order.
func fields(values ...any) []byte {
	var b []byte
	for _, v := range values {
		b, _ = binary.Append(b, binary.LittleEndian, v) // all values have a fixed size
	}
	return b
}

// list writes a table and the list of its blocks, and returns the offset of that list.
func (w *squashWriter) list(t *squashTable, head []byte) (uint64, error) {
	begin := w.at
	t.end()
	if err := w.write(t.blocks); err != nil {
		return 0, err
	}
	at := uint64(w.at)
	for off := 0; off < len(t.blocks); off += 2 + squashMeta {
		head = binary.LittleEndian.AppendUint64(head, uint64(begin)+uint64(off))
	}
	return at, w.write(head)
}

// tables writes the tables after the data, in the order that the kernel requires, and returns the super block.
func (w *squashWriter) tables(root uint64, now int64) ([]byte, error) {
	inodes := w.at
	w.inodes.end()
	w.dirs.end()
	if err := w.write(w.inodes.blocks); err != nil {
		return nil, err
	}
	dirs := w.at
	if err := w.write(w.dirs.blocks); err != nil {
		return nil, err
	}
	var handles, ids squashTable
	for _, ref := range w.refs {
		handles.add(fields(ref))
	}
	for _, id := range w.ids {
		ids.add(fields(id))
	}
	export, err := w.list(&handles, nil)
	if err != nil {
		return nil, err
	}
	owners, err := w.list(&ids, nil)
	if err != nil {
		return nil, err
	}
	flags, attributes := uint16(squashFlags|squashNoXattrs), uint64(squashNowhere)
	if w.xattrCount > 0 {
		flags = squashFlags
		values := uint64(w.at)
		w.xattrs.end()
		if err := w.write(w.xattrs.blocks); err != nil {
			return nil, err
		}
		if attributes, err = w.list(&w.xattrIDs, fields(values, w.xattrCount, uint32(0))); err != nil {
			return nil, err
		}
	}
	used := uint64(w.at)
	super := fields(
		uint32(squashMagic),
		uint32(len(w.nodes)),
		uint32(now),
		uint32(squashBlock),
		uint32(0),
		uint16(squashZlib),
		uint16(
			squashLog,
		),
		flags,
		uint16(len(w.ids)),
		uint16(4),
		uint16(0),
		root,
		used,
		owners,
		attributes,
		uint64(inodes),
		uint64(dirs),
		uint64(squashNowhere),
		export,
	)
	return super, w.pad(nil)
}
