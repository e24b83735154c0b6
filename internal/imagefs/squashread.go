package imagefs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"

	"golang.org/x/sys/unix"
)

// squashImage reads a squashfs image that WriteSquashfs made, to find where its files lie. It does not trust the
// image.
type squashImage struct {
	r            io.ReaderAt
	inodes, dirs int64 // offsets of the tables
	used         int64 // size in bytes
	root         uint64
}

func openSquashfs(r io.ReaderAt) (*squashImage, error) {
	b := make([]byte, squashSuperSize)
	if _, err := r.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("read squashfs super block: %w", err)
	}
	le := binary.LittleEndian
	if le.Uint32(b) != squashMagic || le.Uint16(b[28:]) != 4 {
		return nil, errors.New("not a squashfs 4 image")
	}
	if le.Uint32(b[12:]) != squashBlock || le.Uint16(b[24:])&3 != 3 || le.Uint32(b[16:]) != 0 {
		return nil, errors.New("squashfs with compression, fragments or other blocks; build the image again")
	}
	s := &squashImage{
		r:      r,
		root:   le.Uint64(b[32:]),
		used:   int64(le.Uint64(b[40:])),
		inodes: int64(le.Uint64(b[64:])),
		dirs:   int64(le.Uint64(b[72:])),
	}
	if s.inodes < squashSuperSize || s.dirs < s.inodes || s.used < s.dirs {
		return nil, errors.New("squashfs with tables at unexpected offsets")
	}
	return s, nil
}

// Size returns the size of the file system in bytes, rounded up to blocks.
func (s *squashImage) Size() int64 { return InBlocks(s.used) }

// read returns n bytes of a table from a position on.
func (s *squashImage) read(table int64, place uint64, n int) ([]byte, error) {
	out := make([]byte, 0, n)
	at, off := table+int64(place>>16), int(place&0xffff)
	for len(out) < n {
		block := make([]byte, 2+squashMeta)
		got, err := s.r.ReadAt(block, at)
		if got < 2 || at >= s.used {
			return nil, fmt.Errorf("read squashfs table at %d: %w", at, cmpError(err))
		}
		size := int(binary.LittleEndian.Uint16(block)) &^ squashRawMeta
		if size > got-2 || off > size {
			return nil, fmt.Errorf("squashfs table at %d: %w", at, io.ErrUnexpectedEOF)
		}
		out = append(out, block[2+off:2+min(size, off+n-len(out))]...)
		at, off = at+2+int64(size), 0
		if size == 0 {
			return nil, fmt.Errorf("squashfs table at %d: an empty block", at)
		}
	}
	return out, nil
}

func cmpError(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

// squashInode has the needed fields of an inode.
type squashInode struct {
	kind   int // type, as a basic inode
	mode   uint16
	size   int64
	start  int64  // offset of the data; for a directory: offset of its block in the table
	offset uint16 // for a directory: offset in that block
}

// squashTarget is the offset of the target in a symbolic link's inode.
const squashTarget = 24

// squashHead is how many bytes of an inode are read first: the longest inode without its block list.
const squashHead = 56

func (s *squashImage) inode(ref uint64) (n squashInode, err error) {
	b, err := s.read(s.inodes, ref, 16)
	if err != nil {
		return n, err
	}
	le := binary.LittleEndian
	kind := int(le.Uint16(b))
	n.kind, n.mode = (kind-1)%squashExtended+1, le.Uint16(b[2:])|squashMode[(kind+squashExtended*2-1)%squashExtended]
	sizes := map[int]int{
		squashLink:                  squashTarget,
		squashLink + squashExtended: squashTarget,
		squashDir:                   32,
		squashFile:                  32,
		squashDir + squashExtended:  40,
		squashFile + squashExtended: squashHead,
	}
	want := sizes[kind]
	if want == 0 {
		return n, nil
	}
	if b, err = s.read(s.inodes, ref, want); err != nil {
		return n, err
	}
	switch kind {
	case squashLink, squashLink + squashExtended:
		if n.size = int64(le.Uint32(b[20:])); n.size >= unix.PathMax {
			return n, fmt.Errorf("squashfs inode %#x: a link of %d bytes", ref, n.size)
		}
	case squashDir:
		n.start, n.size, n.offset = int64(le.Uint32(b[16:])), int64(le.Uint16(b[24:])), le.Uint16(b[26:])
	case squashDir + squashExtended:
		n.size, n.start, n.offset = int64(le.Uint32(b[20:])), int64(le.Uint32(b[24:])), le.Uint16(b[34:])
	case squashFile:
		n.start, n.size = int64(le.Uint32(b[16:])), int64(le.Uint32(b[28:]))
	default:
		n.start, n.size = int64(le.Uint64(b[16:])), int64(le.Uint64(b[24:]))
	}
	if n.kind == squashFile && (n.start < 0 || n.size < 0 || n.start > s.used || n.size > s.used-n.start) {
		return n, fmt.Errorf("squashfs inode %#x: %d bytes at %d lie outside of the image", ref, n.size, n.start)
	}
	return n, nil
}

// squashMode has the file type bits of the basic inode types, in their order.
var squashMode = [...]uint16{erofsDir, erofsRegular, 0o120000, 0o060000, 0o020000, 0o010000, 0o140000}

// walk visits each inode once, with one of its names. If readable is set, it skips what cannot be read.
func (s *squashImage) walk(readable bool, visit func(name string, ref uint64, n squashInode) error) error {
	seen := map[uint64]bool{}
	var node func(ref uint64, name string, depth int) error
	node = func(ref uint64, name string, depth int) error {
		if seen[ref] || depth > maxDepth {
			return nil
		}
		seen[ref] = true
		n, err := s.inode(ref)
		if err == nil {
			if err = visit(name, ref, n); err == nil && n.kind == squashDir {
				err = s.entries(
					n,
					func(child uint64, base string) error { return node(child, path.Join(name, base), depth+1) },
				)
			}
		}
		if err != nil && !readable {
			return fmt.Errorf("%q: %w", name, err)
		}
		return nil
	}
	return node(s.root, "", 0)
}

// entries calls each for every entry of a directory.
func (s *squashImage) entries(n squashInode, each func(ref uint64, name string) error) error {
	left := int(n.size) - 3
	if left <= 0 {
		return nil
	}
	if int64(left) > s.used {
		return fmt.Errorf("squashfs directory of %d bytes: %w", left, io.ErrUnexpectedEOF)
	}
	b, err := s.read(s.dirs, uint64(n.start)<<16|uint64(n.offset), left)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	for len(b) >= 12 {
		count, block := int(le.Uint32(b))+1, uint64(le.Uint32(b[4:]))
		for b = b[12:]; count > 0; count-- {
			if len(b) < 8 || len(b) < 8+int(le.Uint16(b[6:]))+1 {
				return io.ErrUnexpectedEOF
			}
			end := 8 + int(le.Uint16(b[6:])) + 1
			if err := each(block<<16|uint64(le.Uint16(b)), string(b[8:end])); err != nil {
				return err
			}
			b = b[end:]
		}
	}
	return nil
}

func (s *squashImage) Files() (files []Extent, inodes int64, err error) {
	err = s.walk(false, func(name string, _ uint64, n squashInode) error {
		inodes++
		if n.kind == squashFile && n.size > 0 {
			files = append(files, Extent{Path: name, Start: n.start, Size: n.size})
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return files, inodes, inOrder(files, s.Size())
}

func (s *squashImage) list(readable bool) (files []File, err error) {
	err = s.walk(readable, func(name string, ref uint64, n squashInode) error {
		f := File{
			Path:  name,
			Inode: BlockOf(s.inodes + int64(ref>>16) + int64(ref&0xffff)),
			Size:  n.size,
			Mode:  n.mode,
			Dir:   n.kind == squashDir,
		}
		switch n.kind {
		case squashFile:
			f.Start, f.Blocks, f.Data = BlockOf(n.start), BlockOf(InBlocks(n.size)), n.start
		case squashLink:
			target, err := s.read(s.inodes, ref, squashTarget+int(n.size))
			if err != nil && !readable {
				return err
			}
			f.Target = string(target[min(len(target), squashTarget):])
		}
		files = append(files, f)
		return nil
	})
	return files, err
}
