package build

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"pando/internal/chunk"
)

// Ext4 on disk, as far as an image needs it that nobody writes to: no journal, no checksums, no room for more, each
// file in one piece. Names and layout are those of the kernel's fs/ext4/ext4.h. In order: super block, group
// descriptors, bitmaps, inode tables, directories and what else is no file's, then the bytes of the files in the
// order of a walk by the bytes of the names.
const (
	ext4SuperOffset = 1024
	ext4SuperSize   = 1024
	ext4Magic       = 0xEF53
	ext4InodeSize   = 256
	ext4PerBlock    = chunk.BlockSize / ext4InodeSize // inodes
	ext4GroupSize   = 8 * chunk.BlockSize             // blocks, or inodes, that one bitmap has room for
	ext4LeastGroup  = 256                             // blocks
	ext4GroupDesc   = 32
	ext4RootInode   = 2
	ext4FirstInode  = 11 // those before it are the file system's own
	ext4MaxLinks    = 65000
	ext4NoBackups   = 0x200 // sparse_super2: no further copy of super block and descriptors

	ext4Compatible   = 0x8 | ext4NoBackups      // ext_attr
	ext4Incompatible = 0x2 | 0x40 | 0x200       // filetype, extents, flex_bg
	ext4ReadOnly     = 0x2 | 0x8 | 0x20 | 0x40  // large_file, huge_file, dir_nlink, extra_isize
	ext4MaxBlocks    = int64(1)<<32 - 1<<20     // without the feature 64bit
	ext4MaxTime      = int64(1)<<34 - 1<<31 - 1 // seconds; the first is -1<<31
)

// ext4Revision counts the changes of this writer that make other bytes of the same tree.
const ext4Revision = "1"

// ext4Prefixes are the attributes that ext4 holds. ACLs have names of their own.
var ext4Prefixes = []string{"user.", ext4ACL, ext4DefaultACL, "trusted.", "security."}

const ext4ACL, ext4DefaultACL = "system.posix_acl_access", "system.posix_acl_default"

// ext4Writer writes a tree as ext4.
type ext4Writer struct {
	root  string
	nodes []ext4Node // in order of their inode numbers
	now   int64      // Unix seconds, of the super block

	groups, perGroup, inodesPerGroup int64 // perGroup: blocks
	inodes                           int64 // in use, the file system's own too
	used, blocks                     int64 // used: those that something is in
	tables                           int64 // block where the inode tables begin
}

// ext4Node is an inode with what lies outside of it.
type ext4Node struct {
	*treeNode
	inner, outer []byte // attributes in the inode and in a block
	leaves       int64  // blocks of its extents
	own          int64  // blocks of a directory, of a long link's target
	meta, data   int64  // block where leaves, attributes and own begin; that of its bytes
}

// number is the inode number of a node of the tree.
func (n *treeNode) ext4Number() uint32 {
	if n.number == 1 {
		return ext4RootInode
	}
	return ext4FirstInode + n.number - 2
}

// writeExt4 writes the tree below root into a file. now is the time of the super block, Unix seconds. lost says
// what of the tree the file system has no room for.
func writeExt4(ctx context.Context, root, file string, now int64) (lost []string, err error) {
	tree, err := readTree(root, ext4Prefixes)
	if err != nil {
		return nil, err
	}
	w := &ext4Writer{root: root, now: now}
	if err := w.lay(tree); err != nil {
		return nil, err
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	out := bufio.NewWriterSize(io.NewOffsetWriter(f, 0), 1<<20)
	for _, write := range []func(io.Writer) error{w.writeHead, w.writeInodes, w.writeMeta} {
		if err := write(out); err != nil {
			return nil, err
		}
	}
	if err := out.Flush(); err != nil {
		return nil, err
	}
	if err := w.writeData(ctx, f); err != nil {
		return nil, err
	}
	return w.lost(tree), f.Truncate(w.blocks * chunk.BlockSize)
}

// lay gives everything its place.
func (w *ext4Writer) lay(tree *treeScanner) error {
	meta, data := int64(0), int64(0)
	w.nodes = make([]ext4Node, len(tree.nodes))
	for i, t := range tree.nodes {
		n := &w.nodes[i]
		n.treeNode = t
		if err := n.measure(); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(w.root, t.rel), err)
		}
		meta += n.metaBlocks()
		data += n.dataBlocks()
	}
	w.inodes = ext4FirstInode - 1 + int64(len(w.nodes)) - 1
	for w.groups = 1; ; w.groups++ {
		w.inodesPerGroup = (w.inodes/w.groups + ext4PerBlock) / ext4PerBlock * ext4PerBlock
		w.tables = 1 + (w.groups*ext4GroupDesc+chunk.BlockSize-1)/chunk.BlockSize + 2*w.groups
		w.used = w.tables + w.groups*w.inodesPerGroup/ext4PerBlock + meta + data
		if w.used <= w.groups*ext4GroupSize && w.inodesPerGroup <= ext4GroupSize {
			break
		}
		w.groups = max(w.groups, w.used/ext4GroupSize-1) // not one by one
	}
	if w.used > ext4MaxBlocks {
		return fmt.Errorf("%d GB, more than ext4 of this kind holds", w.used*chunk.BlockSize>>30)
	}
	w.perGroup = ext4GroupSize
	if w.groups > (w.used+ext4GroupSize-1)/ext4GroupSize { // it is the inodes that there are many of
		w.perGroup = max(ext4LeastGroup, (w.used/w.groups+8)/8*8)
	}
	w.blocks = max(w.used, (w.groups-1)*w.perGroup+8)
	at := w.tables + w.groups*w.inodesPerGroup/ext4PerBlock
	dataAt := at + meta
	for i := range w.nodes {
		n := &w.nodes[i]
		n.meta, n.data = at, dataAt
		at += n.metaBlocks()
		dataAt += n.dataBlocks()
	}
	return nil
}

// writeHead writes what lies before the inode tables.
func (w *ext4Writer) writeHead(out io.Writer) error {
	head := make([]byte, w.tables*chunk.BlockSize)
	copy(head[ext4SuperOffset:], w.super())
	bitmaps := w.tables - 2*w.groups
	var dirs = make([]uint16, w.groups)
	for _, n := range w.nodes {
		if n.kind == squashDir {
			dirs[int64(n.ext4Number()-1)/w.inodesPerGroup]++
		}
	}
	for g := range w.groups {
		of := func(at int64) []byte { return head[at*chunk.BlockSize:][:chunk.BlockSize] }
		freeBlocks := fillBitmap(of(bitmaps+g), w.used-g*w.perGroup, min(w.perGroup, w.blocks-g*w.perGroup))
		freeInodes := fillBitmap(of(bitmaps+w.groups+g), w.inodes-g*w.inodesPerGroup, w.inodesPerGroup)
		copy(head[chunk.BlockSize+g*ext4GroupDesc:], fields(uint32(bitmaps+g), uint32(bitmaps+w.groups+g),
			uint32(w.tables+g*w.inodesPerGroup/ext4PerBlock), uint16(freeBlocks), uint16(freeInodes), dirs[g]))
	}
	_, err := out.Write(head)
	return err
}

// fillBitmap sets the bits of what is used, and of what is not there, and counts the others.
func fillBitmap(b []byte, used, size int64) (free int64) {
	used = max(0, min(used, size))
	for i := range int64(len(b)) * 8 {
		if i < used || i >= size {
			b[i/8] |= 1 << (i % 8)
		}
	}
	return size - used
}

// super is the super block.
func (w *ext4Writer) super() []byte {
	b := make([]byte, ext4SuperSize)
	put := func(at int, values ...any) { copy(b[at:], fields(values...)) }
	now := uint32(max(0, min(w.now, 1<<32-1)))
	uuid, _ := hex.DecodeString(strings.ReplaceAll(rootUUID, "-", "")) // a constant
	put(
		0,
		uint32(w.groups*w.inodesPerGroup),
		uint32(w.blocks),
		uint32(0),
		uint32(w.blocks-w.used),
		uint32(w.groups*w.inodesPerGroup-w.inodes),
		uint32(
			0,
		),
		uint32(2),
		uint32(2),
		uint32(w.perGroup),
		uint32(w.perGroup),
		uint32(w.inodesPerGroup),
		uint32(0),
		now,
	)
	put(54, uint16(0xffff), uint16(ext4Magic), uint16(1), uint16(1), uint16(0), now)
	put(76, uint32(1))
	put(
		84,
		uint32(ext4FirstInode),
		uint16(ext4InodeSize),
		uint16(0),
		uint32(ext4Compatible),
		uint32(ext4Incompatible),
		uint32(ext4ReadOnly),
	)
	copy(b[104:], uuid)
	copy(b[236:], uuid) // seed of hashes that nothing uses
	put(252, uint8(1))
	put(256, uint32(0xc)) // attributes and ACLs
	put(264, now)
	put(348, uint16(32), uint16(32), uint32(1))
	put(372, uint8(4))
	return b
}

// lost says what of the tree is not in the image.
func (w *ext4Writer) lost(tree *treeScanner) []string {
	var out []string
	if n := len(tree.lists); n > 0 {
		out = append(
			out,
			fmt.Sprintf("%s has an attribute that ext4 has no room for, as have %d files in all; the image is without",
				shown("/"+tree.lists[0]), n),
		)
	}
	late := 0
	first := ""
	for _, n := range w.nodes {
		if sec := n.stat.Mtim.Sec; sec != ext4Time(sec) {
			if late++; late == 1 {
				first = n.rel
			}
		}
	}
	if late > 0 {
		out = append(
			out,
			fmt.Sprintf(
				"%s has a time that ext4 has no room for (1901 to 2446), as have %d files in all",
				shown("/"+first),
				late,
			),
		)
	}
	return out
}

// ext4Time is a time as ext4 has room for it.
func ext4Time(sec int64) int64 { return max(-1<<31, min(sec, ext4MaxTime)) }
