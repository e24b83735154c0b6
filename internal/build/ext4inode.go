package build

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"pando/internal/chunk"
)

// The map of an inode's blocks: a header, and then entries of the same size.
const (
	ext4ExtentMagic  = 0xF30A
	ext4ExtentSize   = 12
	ext4ExtentMost   = 1 << 15 // blocks of one extent
	ext4InInode      = 4       // extents in an inode
	ext4InBlock      = (chunk.BlockSize - ext4ExtentSize) / ext4ExtentSize
	ext4HasExtents   = 0x80000 // flag of an inode
	ext4ShortLink    = 60      // a target of fewer bytes lies in its inode
	ext4InnerSize    = ext4InodeSize - 128 - ext4ExtraSize
	ext4ExtraSize    = 32
	ext4InnerStart   = 128 + ext4ExtraSize
	ext4EntryHead    = 8   // of a directory, before the name
	ext4SectorsBlock = 8   // what an inode counts its blocks in
	ext4LastEntry    = 263 // the largest entry: a name of 255 bytes
)

// ext4Kinds are the types in directories, by the kinds of nodes.
var ext4Kinds = [...]uint8{
	squashDir:         2,
	squashFile:        1,
	squashLink:        7,
	squashBlockDevice: 4,
	squashCharDevice:  3,
	squashFifo:        5,
	squashSocket:      6,
}

// measure finds out what the inode needs outside of itself.
func (n *ext4Node) measure() (err error) {
	if n.inner, n.outer, err = ext4Attributes(n.attrs); err != nil {
		return err
	}
	if n.links > ext4MaxLinks {
		return fmt.Errorf("%d names, ext4 takes %d", n.links, ext4MaxLinks)
	}
	switch n.kind {
	case squashDir:
		n.own = int64(len(n.listing(0))) / chunk.BlockSize
	case squashLink:
		if n.size = int64(len(n.target)); n.size >= ext4ShortLink {
			n.own = 1
		}
	}
	if extents := (n.dataBlocks() + ext4ExtentMost - 1) / ext4ExtentMost; extents > ext4InInode {
		n.leaves = (extents + ext4InBlock - 1) / ext4InBlock
	}
	return nil
}

func (n *ext4Node) dataBlocks() int64 {
	if n.kind != squashFile {
		return 0
	}
	return inBlocks(n.size) / chunk.BlockSize
}

func (n *ext4Node) metaBlocks() int64 { return n.leaves + int64(len(n.outer))/chunk.BlockSize + n.own }

// writeInodes writes the inode tables.
func (w *ext4Writer) writeInodes(out io.Writer) error {
	next := int64(1)
	empty := make([]byte, ext4InodeSize)
	put := func(number int64, b []byte) error {
		for ; next < number; next++ {
			if _, err := out.Write(empty); err != nil {
				return err
			}
		}
		if b == nil {
			return nil
		}
		next++
		_, err := out.Write(b)
		return err
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		if err := put(int64(n.ext4Number()), n.inode()); err != nil {
			return err
		}
	}
	return put(w.groups*w.inodesPerGroup+1, nil)
}

// inode is the inode of a node. All of its times are that of the last change of its content: of the others a node
// has no use, and they are of the day and the machine.
func (n *ext4Node) inode() []byte {
	b := make([]byte, ext4InodeSize)
	put := func(at int, values ...any) { copy(b[at:], fields(values...)) }
	sec := ext4Time(n.stat.Mtim.Sec)
	extra := uint32((sec-int64(int32(sec)))>>32)&3 | uint32(n.stat.Mtim.Nsec)<<2
	size, links := n.size, n.links
	if n.kind == squashDir {
		size, links = n.own*chunk.BlockSize, n.dirLinks()
	}
	blocks := (n.metaBlocks() + n.dataBlocks()) * ext4SectorsBlock
	put(
		0,
		uint16(n.stat.Mode),
		uint16(n.stat.Uid),
		uint32(size),
		uint32(sec),
		uint32(sec),
		uint32(sec),
		uint32(0),
		uint16(n.stat.Gid),
		uint16(links),
		uint32(blocks),
	)
	flags, body := n.body()
	put(32, flags)
	copy(b[40:100], body)
	if len(n.outer) > 0 {
		put(104, uint32(n.meta+n.leaves))
	}
	put(108, uint32(size>>32))
	put(116, uint16(blocks>>32), uint16(0), uint16(n.stat.Uid>>16), uint16(n.stat.Gid>>16))
	put(128, uint16(ext4ExtraSize), uint16(0), extra, extra, extra, uint32(sec), extra)
	copy(b[ext4InnerStart:], n.inner)
	return b
}

// dirLinks counts the names of a directory: its own, ".", and ".." of those in it. 1 stands for more than there is
// room for.
func (n *ext4Node) dirLinks() uint32 {
	links := uint32(2)
	for _, c := range n.names {
		if c.node.kind == squashDir {
			links++
		}
	}
	if links > ext4MaxLinks {
		return 1
	}
	return links
}

// body is what an inode has where others have the map of their blocks.
func (n *ext4Node) body() (flags uint32, body []byte) {
	switch n.kind {
	case squashFile:
		return ext4HasExtents, n.fileMap()
	case squashDir:
		return ext4HasExtents, extentList(ext4InInode, n.metaOwn(), n.own)
	case squashLink:
		if n.own > 0 {
			return ext4HasExtents, extentList(ext4InInode, n.metaOwn(), n.own)
		}
		return 0, []byte(n.target)
	case squashBlockDevice, squashCharDevice:
		major, minor := unix.Major(n.stat.Rdev), unix.Minor(n.stat.Rdev)
		if major < 256 && minor < 256 {
			return 0, fields(major<<8 | minor)
		}
		return 0, fields(uint32(0), minor&0xff|major<<8|minor&^0xff<<12)
	}
	return 0, nil
}

// metaOwn is the block of a directory, or of a link's target.
func (n *ext4Node) metaOwn() int64 { return n.meta + n.leaves + int64(len(n.outer))/chunk.BlockSize }

// extentList is the map of blocks that lie behind one another: as many entries as there is room for.
func extentList(room int, start, blocks int64) []byte {
	count := (blocks + ext4ExtentMost - 1) / ext4ExtentMost
	b := fields(uint16(ext4ExtentMagic), uint16(count), uint16(room), uint16(0), uint32(0))
	for i := range count {
		done := i * ext4ExtentMost
		b = append(b, fields(uint32(done), uint16(min(blocks-done, ext4ExtentMost)), uint16(0), uint32(start+done))...)
	}
	return b
}

// fileMap is the map of a file's blocks, or of those that have it.
func (n *ext4Node) fileMap() []byte {
	if n.leaves == 0 {
		return extentList(ext4InInode, n.data, n.dataBlocks())
	}
	b := fields(uint16(ext4ExtentMagic), uint16(n.leaves), uint16(ext4InInode), uint16(1), uint32(0))
	for i := range n.leaves {
		b = append(b, fields(uint32(i*ext4InBlock*ext4ExtentMost), uint32(n.meta+i), uint32(0))...)
	}
	return b
}

// writeMeta writes what is neither inode nor file.
func (w *ext4Writer) writeMeta(out io.Writer) error {
	parents := make([]uint32, len(w.nodes)+1) // of directories, by number in the tree
	parents[1] = ext4RootInode
	for i := range w.nodes {
		n := &w.nodes[i]
		var b []byte
		for l := range n.leaves {
			done := l * ext4InBlock * ext4ExtentMost
			leaf := extentList(ext4InBlock, n.data+done, min(n.dataBlocks()-done, ext4InBlock*ext4ExtentMost))
			for at := ext4ExtentSize; at < len(leaf); at += ext4ExtentSize { // they count from the file's start
				first := binary.LittleEndian.Uint32(leaf[at:])
				binary.LittleEndian.PutUint32(leaf[at:], first+uint32(done))
			}
			b = append(b, wholeBlock(leaf)...)
		}
		b = append(b, n.outer...)
		switch {
		case n.kind == squashDir:
			for _, c := range n.names {
				if c.node.kind == squashDir {
					parents[c.node.number] = n.ext4Number()
				}
			}
			b = append(b, n.listing(parents[n.number])...)
		case n.kind == squashLink && n.own > 0:
			b = append(b, wholeBlock([]byte(n.target))...)
		}
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	return nil
}

func wholeBlock(b []byte) []byte { return append(b, make([]byte, chunk.BlockSize-len(b))...) }

// listing is the blocks of a directory: entries in order of their names' bytes, none across the end of a block.
func (n *ext4Node) listing(parent uint32) []byte {
	var b []byte
	last := 0 // the last entry of this block
	add := func(number uint32, kind int, name string) {
		size := (ext4EntryHead + len(name) + 3) / 4 * 4
		if room := chunk.BlockSize - len(b)%chunk.BlockSize; len(b)%chunk.BlockSize > 0 && size > room {
			binary.LittleEndian.PutUint16(b[last+4:], uint16(len(b)-last+room))
			b = append(b, make([]byte, room)...)
		}
		last = len(b)
		b = append(b, fields(number, uint16(size), uint8(len(name)), ext4Kinds[kind])...)
		b = append(b, name...)
		b = append(b, make([]byte, last+size-len(b))...)
	}
	add(n.ext4Number(), squashDir, ".")
	add(parent, squashDir, "..")
	for _, c := range n.names {
		add(c.node.ext4Number(), c.node.kind, c.name)
	}
	room := (chunk.BlockSize - len(b)%chunk.BlockSize) % chunk.BlockSize
	binary.LittleEndian.PutUint16(b[last+4:], uint16(len(b)-last+room))
	return append(b, make([]byte, room)...)
}

// writeData writes the bytes of the files. What is zeros becomes a hole of the image.
func (w *ext4Writer) writeData(ctx context.Context, out io.WriterAt) error {
	buf := make([]byte, 1<<20)
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.kind != squashFile || n.size == 0 {
			continue
		}
		path := filepath.Join(w.root, n.rel)
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		err = copySparse(ctx, out, n.data*chunk.BlockSize, f, n.size, buf)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}
