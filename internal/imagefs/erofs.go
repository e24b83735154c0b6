package imagefs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"pando/internal/chunk"
)

// EROFS on disk, as far as an uncompressed image of mkfs.erofs needs it. Names and layout are those of the kernel's
// fs/erofs/erofs_fs.h.
const (
	erofsSuperOffset = 1024
	erofsSuperSize   = 128
	erofsMagic       = 0xE0F5E1E2

	erofsFlatPlain  = 0 // whole blocks
	erofsFlatInline = 2 // whole blocks, and the rest after the inode
)

// ErofsImage finds the files of an EROFS image. It does not trust the image: a damaged one gives an error.
type ErofsImage struct {
	r         io.ReaderAt
	blockSize int64
	blocks    int64
	metaStart int64
	rootNID   uint64
}

type erofsInode struct {
	at     int64 // offset of the inode
	layout int
	mode   uint16
	size   int64
	start  int64 // offset of the whole blocks
	tail   int64 // offset of the inlined tail
	xattrs int64 // bytes of extended attributes, which come before the tail
}

// OpenErofs reads the super block of an uncompressed EROFS image.
func OpenErofs(r io.ReaderAt) (*ErofsImage, error) {
	sb := make([]byte, erofsSuperSize)
	if _, err := r.ReadAt(sb, erofsSuperOffset); err != nil {
		return nil, fmt.Errorf("read EROFS super block: %w", err)
	}
	le := binary.LittleEndian
	if le.Uint32(sb) != erofsMagic {
		return nil, errors.New("not an EROFS image")
	}
	if sb[12] != 12 {
		return nil, fmt.Errorf("EROFS block size is 2^%d bytes, want 4096", sb[12])
	}
	return &ErofsImage{
		r:         r,
		blockSize: 1 << sb[12],
		rootNID:   uint64(le.Uint16(sb[14:])),
		blocks:    int64(le.Uint32(sb[36:])),
		metaStart: int64(le.Uint32(sb[40:])) << sb[12],
	}, nil
}

// Size returns the size of the file system in bytes.
func (e *ErofsImage) Size() int64 { return e.blocks * e.blockSize }

func (e *ErofsImage) inode(nid uint64) (erofsInode, error) {
	var n erofsInode
	b := make([]byte, 64)
	if nid > uint64(e.Size())/32 {
		return n, fmt.Errorf("EROFS inode %d lies outside of the image", nid)
	}
	at := e.metaStart + int64(nid)*32
	if got, err := e.r.ReadAt(b, at); err != nil && !(errors.Is(err, io.EOF) && got >= 32) {
		return n, fmt.Errorf("read EROFS inode %d: %w", nid, err)
	}
	le := binary.LittleEndian
	format := le.Uint16(b)
	n.at, n.layout = at, int(format>>1)&7
	n.mode = le.Uint16(b[4:])
	n.start = int64(le.Uint32(b[16:])) * e.blockSize
	n.size, n.tail = int64(le.Uint32(b[8:])), at+32
	if format&1 == 1 {
		n.size, n.tail = int64(le.Uint64(b[8:])), at+64
	}
	if count := int64(le.Uint16(b[2:])); count > 0 {
		n.xattrs = 12 + (count-1)*4
		n.tail += n.xattrs
	}
	if n.layout != erofsFlatPlain && n.layout != erofsFlatInline {
		return n, fmt.Errorf("EROFS inode %d has layout %d, which is not an uncompressed one", nid, n.layout)
	}
	if n.size < 0 || n.size > e.Size() {
		return n, fmt.Errorf("EROFS inode %d has %d bytes, more than the image", nid, n.size)
	}
	return n, nil
}

// The file type bits of a mode, as stat(2) has them.
const (
	erofsType    = 0o170000
	erofsDir     = 0o040000
	erofsRegular = 0o100000
	erofsLink    = 0o120000
)

// Files lists all regular files with content, each inode once, in order of offset. inodes is the number of all
// inodes.
func (e *ErofsImage) Files() (files []Extent, inodes int64, err error) {
	err = e.walk(func(name string, n erofsInode) error {
		inodes++
		if n.mode&erofsType != erofsRegular || n.size == 0 {
			return nil
		}
		if n.layout != erofsFlatPlain {
			return fmt.Errorf("EROFS file %q has an inlined tail; use -Enoinline_data", name)
		}
		files = append(files, Extent{Path: name, Start: n.start, Size: n.size})
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return files, inodes, inOrder(files, e.Size())
}

// list lists all inodes, each with one of its names.
func (e *ErofsImage) list(readable bool) (files []File, err error) {
	walk := e.walk
	if readable {
		walk = e.walkReadable
	}
	err = walk(func(name string, n erofsInode) error {
		f := File{
			Path:  name,
			Inode: BlockOf(n.at),
			Size:  n.size,
			Mode:  n.mode,
			Dir:   n.mode&erofsType == erofsDir,
			Data:  n.start,
		}
		if n.layout == erofsFlatInline && n.size < chunk.BlockSize {
			f.Data = n.tail
		}
		blocks := n.size / chunk.BlockSize // whole blocks; the tail is stored with the inode
		if n.layout == erofsFlatPlain {
			blocks = (n.size + chunk.BlockSize - 1) / chunk.BlockSize
		}
		if f.Dir || n.mode&erofsType == erofsRegular {
			f.Start, f.Blocks = BlockOf(n.start), uint32(blocks)
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

// walk visits each inode once, with one of its names.
func (e *ErofsImage) walk(visit func(name string, n erofsInode) error) error {
	w := &erofsWalk{image: e, seen: map[uint64]bool{}, visit: visit}
	return w.walk(e.rootNID, "", 0)
}

// walkReadable visits the inodes that can be read and skips the others.
func (e *ErofsImage) walkReadable(visit func(name string, n erofsInode) error) error {
	w := &erofsWalk{image: e, seen: map[uint64]bool{}, visit: visit, skip: true}
	return w.walk(e.rootNID, "", 0)
}

type erofsWalk struct {
	image *ErofsImage
	seen  map[uint64]bool
	visit func(name string, n erofsInode) error
	skip  bool // skip what cannot be read
}

// maxDepth bounds the depth of a path in an image. Linux cannot open a longer path.
const maxDepth = 2048

func (w *erofsWalk) walk(nid uint64, name string, depth int) error {
	if w.seen[nid] {
		return nil
	}
	w.seen[nid] = true
	n, err := w.image.inode(nid)
	if err != nil && w.skip {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	if err := w.visit(name, n); err != nil || n.mode&erofsType != erofsDir {
		return err
	}
	if depth > maxDepth {
		return fmt.Errorf("%q: deeper than %d directories", name, maxDepth)
	}
	return w.directory(n, name, depth)
}

func (w *erofsWalk) directory(n erofsInode, name string, depth int) error {
	bs := w.image.blockSize
	for off := int64(0); off < n.size; off += bs {
		block := make([]byte, min(bs, n.size-off))
		at := n.start + off
		if n.layout == erofsFlatInline && int64(len(block)) < bs {
			at = n.tail
		}
		if _, err := w.image.r.ReadAt(block, at); err != nil && w.skip {
			continue
		} else if err != nil {
			return fmt.Errorf("read EROFS directory %q: %w", name, err)
		}
		entries, err := readDirents(block)
		if err != nil {
			return fmt.Errorf("EROFS directory %q: %w", name, err)
		}
		for _, d := range entries {
			if d.name == "." || d.name == ".." {
				continue
			}
			if err := w.walk(d.nid, path.Join(name, d.name), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

type dirent struct {
	nid  uint64
	name string
}

// readDirents parses one block of a directory: 12-byte entries, then their names. The last name ends with the block
// or with a zero byte.
func readDirents(b []byte) ([]dirent, error) {
	le := binary.LittleEndian
	if len(b) < 12 {
		return nil, fs.ErrInvalid
	}
	first := int(le.Uint16(b[8:]))
	if first < 12 || first%12 != 0 || first > len(b) {
		return nil, fmt.Errorf("first name at offset %d", first)
	}
	out := make([]dirent, 0, first/12)
	for i := 0; i < first; i += 12 {
		from, to := int(le.Uint16(b[i+8:])), len(b)
		if i+12 < first {
			to = int(le.Uint16(b[i+12+8:]))
		}
		if from < first || to < from || to > len(b) {
			return nil, fmt.Errorf("name at offsets %d to %d", from, to)
		}
		name := b[from:to]
		if i+12 >= first {
			name, _, _ = bytes.Cut(name, []byte{0})
		}
		out = append(out, dirent{le.Uint64(b[i:]), string(name)})
	}
	return out, nil
}
