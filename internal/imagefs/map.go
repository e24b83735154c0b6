package imagefs

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"

	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/store"
)

// File is a file or directory and its position in a root file system. A block has chunk.BlockSize bytes.
type File struct {
	Path          string // without a leading slash
	Start, Blocks uint32 // blocks with its content; Blocks 0: it has no content, or its content lies with its inode
	Inode         uint32 // block of its inode
	Size          int64  // bytes
	Mode          uint16 // type and permissions, as stat(2) has them
	Dir           bool

	Data   int64  // offset of its content, if it has any
	Target string // target of a symbolic link whose bytes may lie in two places
}

// Map is the layout of a version's root file system. It is read from the file system itself, so every version has one
// and it always matches the root.
type Map struct {
	Size int64 // bytes of the file system

	files     []File // in order of Inode
	data      []int  // indexes of those with blocks, in order of Start
	byPath    map[string]int
	byPattern map[string]int // by path without its numbers; -1: several paths are the same then
}

// ReadMap reads the map of a version's root from the store: inodes and directories, a few MB.
func ReadMap(ctx context.Context, d *store.Dir, m image.Manifest) (*Map, error) {
	return mapRoot(ctx, d, m, false)
}

// ReadMapInPart is ReadMap for a damaged store: it leaves out files whose inodes or directories cannot be read.
func ReadMapInPart(ctx context.Context, d *store.Dir, m image.Manifest) (*Map, error) {
	return mapRoot(ctx, d, m, true)
}

func mapRoot(ctx context.Context, d *store.Dir, m image.Manifest, readable bool) (*Map, error) {
	r, err := Open(ctx, d, m)
	if err != nil {
		return nil, fmt.Errorf("map root: %w", err)
	}
	raw, err := OpenFileSystem(m.Root.FileSystem, r)
	if err != nil {
		return nil, fmt.Errorf("map root: %w", err)
	}
	files, err := raw.list(readable)
	if err != nil {
		return nil, fmt.Errorf("map root: %w", err)
	}
	return NewMap(m.Root.Size, files), nil
}

// BlockOf returns the block that contains an offset.
func BlockOf(off int64) uint32 { return uint32(off / chunk.BlockSize) }

// NewMap makes a map from a list of files.
func NewMap(size int64, files []File) *Map {
	m := &Map{
		Size:      size,
		files:     files,
		byPath:    make(map[string]int, len(files)),
		byPattern: make(map[string]int, len(files)),
	}
	slices.SortStableFunc(m.files, func(a, b File) int { return cmp.Compare(a.Inode, b.Inode) })
	for i, f := range m.files {
		m.byPath[f.Path] = i
		key := withoutNumbers(f.Path)
		if _, ok := m.byPattern[key]; ok {
			i = -1
		}
		m.byPattern[key] = i
		if i = m.byPath[f.Path]; f.Blocks > 0 {
			m.data = append(m.data, i)
		}
	}
	slices.SortFunc(m.data, func(a, b int) int { return cmp.Compare(m.files[a].Start, m.files[b].Start) })
	return m
}

// Find returns the file with a path.
func (m *Map) Find(path string) (File, bool) {
	i, ok := m.byPath[path]
	if !ok {
		return File{}, false
	}
	return m.files[i], true
}

var numbers = regexp.MustCompile(`[0-9]+`)

func withoutNumbers(path string) string { return numbers.ReplaceAllString(path, "0") }

// FindLike is Find. If there is no such file, it returns the only one whose path differs just in numbers:
// libssl.so.3.0.16 for libssl.so.3.0.15, or a module of the next kernel.
func (m *Map) FindLike(path string) (File, bool) {
	if f, ok := m.Find(path); ok {
		return f, true
	}
	if i, ok := m.byPattern[withoutNumbers(path)]; ok && i >= 0 {
		return m.files[i], true
	}
	return File{}, false
}

// At returns the file or directory with content in a block; false for a block with inodes or the super block.
func (m *Map) At(block uint32) (File, bool) {
	n, found := slices.BinarySearchFunc(
		m.data,
		block,
		func(i int, b uint32) int { return cmp.Compare(m.files[i].Start, b) },
	)
	if !found {
		n--
	}
	if n < 0 {
		return File{}, false
	}
	f := m.files[m.data[n]]
	return f, block-f.Start < f.Blocks
}

// InodesIn returns the files whose inodes lie in a block.
func (m *Map) InodesIn(block uint32) []File {
	first, _ := slices.BinarySearchFunc(
		m.files,
		block,
		func(f File, b uint32) int { return cmp.Compare(f.Inode, b) },
	)
	last := first
	for last < len(m.files) && m.files[last].Inode == block {
		last++
	}
	return m.files[first:last]
}

// Files returns all files and directories, in order of their inodes. The caller must not change the slice.
func (m *Map) Files() []File { return m.files }

// In returns the files and directories with content in a range of bytes of the file system, and those with inodes in
// it.
func (m *Map) In(start, size int64) (data, inodes []File) {
	first, end := BlockOf(start), BlockOf(start+size-1)+1
	i, found := slices.BinarySearchFunc(
		m.data,
		first,
		func(i int, b uint32) int { return cmp.Compare(m.files[i].Start, b) },
	)
	if !found && i > 0 {
		i--
	}
	for ; i < len(m.data); i++ {
		f := m.files[m.data[i]]
		if f.Start >= end {
			break
		}
		if f.Start+f.Blocks > first {
			data = append(data, f)
		}
	}
	for b := first; b < end; b++ {
		inodes = append(inodes, m.InodesIn(b)...)
	}
	return data, inodes
}

// ByStart returns the files and directories that have blocks, in order of Start.
func (m *Map) ByStart() []File {
	out := make([]File, len(m.data))
	for i, n := range m.data {
		out[i] = m.files[n]
	}
	return out
}
