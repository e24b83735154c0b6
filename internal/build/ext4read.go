package build

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"

	"pando/internal/chunk"
)

// ext4Image walks an ext4 image that ext4Writer made, to find where files lie. It believes nothing it reads.
type ext4Image struct {
	r              io.ReaderAt
	blocks         int64
	inodes         int64 // in all groups
	inodesPerGroup int64
	tables         []int64 // where those of each group begin, in bytes
}

func openExt4(r io.ReaderAt) (*ext4Image, error) {
	b := make([]byte, ext4SuperSize)
	if _, err := r.ReadAt(b, ext4SuperOffset); err != nil {
		return nil, fmt.Errorf("read ext4 super block: %w", err)
	}
	le := binary.LittleEndian
	if le.Uint16(b[56:]) != ext4Magic {
		return nil, errors.New("not an ext4 image")
	}
	if le.Uint32(b[24:]) != 2 || le.Uint16(b[88:]) != ext4InodeSize || le.Uint32(b[96:]) != ext4Incompatible {
		return nil, errors.New("ext4 with other blocks, inodes or features; build the image again")
	}
	e := &ext4Image{
		r:              r,
		inodes:         int64(le.Uint32(b)),
		blocks:         int64(le.Uint32(b[4:])),
		inodesPerGroup: int64(le.Uint32(b[40:])),
	}
	perGroup := int64(le.Uint32(b[32:]))
	if perGroup < 8 || perGroup > ext4GroupSize || e.inodesPerGroup < ext4PerBlock ||
		e.inodesPerGroup > ext4GroupSize ||
		e.blocks < 4 {
		return nil, errors.New("ext4 whose groups have no size")
	}
	groups := (e.blocks + perGroup - 1) / perGroup
	if e.inodes != groups*e.inodesPerGroup || groups*ext4GroupDesc > e.size() {
		return nil, errors.New("ext4 whose groups have other numbers of inodes")
	}
	desc := make([]byte, chunk.BlockSize)
	for g := range groups {
		at := g * ext4GroupDesc % chunk.BlockSize
		if at == 0 {
			if _, err := r.ReadAt(desc, chunk.BlockSize+g*ext4GroupDesc); err != nil {
				return nil, fmt.Errorf("read ext4 groups: %w", err)
			}
		}
		e.tables = append(e.tables, int64(le.Uint32(desc[at+8:]))*chunk.BlockSize)
	}
	return e, nil
}

// size is the number of bytes of the file system.
func (e *ext4Image) size() int64 { return e.blocks * chunk.BlockSize }

// ext4Inode is what is wanted of an inode.
type ext4Inode struct {
	at          int64 // where it lies
	mode        uint16
	size        int64
	start       int64  // of its bytes
	shortTarget string // of a link, in the inode
}

func (e *ext4Image) inode(number uint32) (n ext4Inode, err error) {
	i := int64(number) - 1
	if i < 0 || i >= e.inodes {
		return n, fmt.Errorf("ext4 inode %d of %d", number, e.inodes)
	}
	b := make([]byte, ext4InodeSize)
	n.at = e.tables[i/e.inodesPerGroup] + i%e.inodesPerGroup*ext4InodeSize
	if _, err := e.r.ReadAt(b, n.at); err != nil {
		return n, fmt.Errorf("read ext4 inode %d: %w", number, err)
	}
	le := binary.LittleEndian
	n.mode, n.size = le.Uint16(b), int64(le.Uint32(b[4:]))|int64(le.Uint32(b[108:]))<<32
	if n.size < 0 || n.size > e.size() {
		return n, fmt.Errorf("ext4 inode %d has %d bytes, more than the image", number, n.size)
	}
	if le.Uint32(b[32:])&ext4HasExtents == 0 {
		if n.mode&erofsType == erofsLink && n.size < ext4ShortLink {
			n.shortTarget = string(b[40 : 40+n.size])
		}
		return n, nil
	}
	if n.size > 0 {
		n.start, err = e.start(b[40:100], 0)
	}
	if err == nil && (n.start < 0 || n.start > e.size()-n.size) {
		err = fmt.Errorf("%d bytes at %d lie outside of the image", n.size, n.start)
	}
	if err != nil {
		return n, fmt.Errorf("ext4 inode %d: %w", number, err)
	}
	return n, nil
}

// start is where the first of an inode's blocks lies. The others follow, as the writer puts them.
func (e *ext4Image) start(b []byte, depth int) (int64, error) {
	le := binary.LittleEndian
	if le.Uint16(b) != ext4ExtentMagic || le.Uint16(b[2:]) == 0 || depth > 1 {
		return 0, errors.New("its blocks have no map")
	}
	if le.Uint16(b[6:]) == 0 {
		return int64(le.Uint32(b[ext4ExtentSize+8:])) * chunk.BlockSize, nil
	}
	leaf := make([]byte, chunk.BlockSize)
	if _, err := e.r.ReadAt(leaf, int64(le.Uint32(b[ext4ExtentSize+4:]))*chunk.BlockSize); err != nil {
		return 0, err
	}
	return e.start(leaf, depth+1)
}

// walk visits each inode once, by one of its names. With readable set, what cannot be read is left out.
func (e *ext4Image) walk(readable bool, visit func(name string, n ext4Inode) error) error {
	seen := map[uint32]bool{}
	var node func(number uint32, name string, depth int) error
	node = func(number uint32, name string, depth int) error {
		if seen[number] || depth > maxDepth {
			return nil
		}
		seen[number] = true
		n, err := e.inode(number)
		if err == nil {
			if err = visit(name, n); err == nil && n.mode&erofsType == erofsDir {
				err = e.entries(
					n,
					readable,
					func(child uint32, base string) error { return node(child, path.Join(name, base), depth+1) },
				)
			}
		}
		if err != nil && !readable {
			return fmt.Errorf("%q: %w", name, err)
		}
		return nil
	}
	return node(ext4RootInode, "", 0)
}

// entries calls each for every name of a directory but "." and "..".
func (e *ext4Image) entries(n ext4Inode, readable bool, each func(number uint32, name string) error) error {
	le := binary.LittleEndian
	block := make([]byte, chunk.BlockSize)
	for off := int64(0); off < n.size; off += chunk.BlockSize {
		if _, err := e.r.ReadAt(block, n.start+off); err != nil {
			if readable {
				continue
			}
			return fmt.Errorf("read ext4 directory: %w", err)
		}
		for b := block; len(b) > 0; {
			if len(b) < ext4EntryHead || int(le.Uint16(b[4:])) < ext4EntryHead || int(le.Uint16(b[4:])) > len(b) ||
				ext4EntryHead+int(b[6]) > int(le.Uint16(b[4:])) {
				return fmt.Errorf(
					"an entry at %d of an ext4 directory: %w",
					n.start+off+int64(chunk.BlockSize-len(b)),
					io.ErrUnexpectedEOF,
				)
			}
			name := string(b[ext4EntryHead : ext4EntryHead+int(b[6])])
			if number := le.Uint32(b); number != 0 && name != "." && name != ".." {
				if err := each(number, name); err != nil {
					return err
				}
			}
			b = b[le.Uint16(b[4:]):]
		}
	}
	return nil
}

func (e *ext4Image) files() (files []rawFile, inodes int64, err error) {
	err = e.walk(false, func(name string, n ext4Inode) error {
		inodes++
		if n.mode&erofsType == erofsRegular && n.size > 0 {
			files = append(files, rawFile{Path: name, Start: n.start, Size: n.size})
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return files, inodes, inOrder(files, e.size())
}

func (e *ext4Image) list(readable bool) (files []RootFile, err error) {
	err = e.walk(readable, func(name string, n ext4Inode) error {
		kind := n.mode & erofsType
		f := RootFile{Path: name, Inode: blockOf(n.at), Size: n.size, Mode: n.mode, Dir: kind == erofsDir}
		if kind == erofsDir || kind == erofsRegular {
			f.Start, f.Blocks, f.data = blockOf(n.start), blockOf(inBlocks(n.size)), n.start
		}
		if kind == erofsLink {
			if f.target = n.shortTarget; n.size >= ext4ShortLink && n.size <= maxPath {
				target := make([]byte, n.size)
				if _, err := e.r.ReadAt(target, n.start); err != nil && !readable {
					return err
				}
				f.target = string(target)
			}
		}
		files = append(files, f)
		return nil
	})
	return files, err
}
