package imagefs

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"pando/internal/chunk"
	"pando/internal/image"
)

// FileSystem is a raw root file system of one kind.
type FileSystem interface {
	Size() int64 // bytes, in whole blocks
	// Files lists where the bytes of regular files are, in order of offset, and counts the inodes.
	Files() (files []Extent, inodes int64, err error)
	// list lists all inodes, each with one of its names. If readable is set, it leaves out what cannot be read.
	list(readable bool) ([]File, error)
}

// Extent is a range of bytes of one regular file.
type Extent struct {
	Path  string // without a leading slash
	Start int64  // offset in the image in bytes
	Size  int64  // bytes
}

// OpenFileSystem opens a raw image of the given kind.
func OpenFileSystem(kind string, r io.ReaderAt) (FileSystem, error) {
	switch kind {
	case image.Erofs:
		return OpenErofs(r)
	case image.Squashfs:
		return openSquashfs(r)
	}
	return nil, fmt.Errorf("file system %q: this Pando cannot read it; upgrade it", kind)
}

// InBlocks rounds a number of bytes up to whole blocks.
func InBlocks(n int64) int64 { return (n + chunk.BlockSize - 1) / chunk.BlockSize * chunk.BlockSize }

// inOrder sorts files by offset, and returns an error if two overlap.
func inOrder(files []Extent, size int64) error {
	slices.SortFunc(files, func(a, b Extent) int { return cmp.Compare(a.Start, b.Start) })
	end := int64(0)
	for _, f := range files {
		if f.Start < end || f.Start+f.Size > size {
			return fmt.Errorf("file %q overlaps another one or the end of the image", f.Path)
		}
		end = f.Start + f.Size
	}
	return nil
}
