package chunk

import (
	"fmt"
	"hash/fnv"
)

// DefaultChunkSize is the raw size of the largest chunk that the builder makes, in bytes. Smaller chunks resend less
// data after an update, but make more objects. At 64 KiB a Debian update resends about 10 % of the compressed image.
const DefaultChunkSize = 64 << 10

// anchorOneIn is how many small files there are, on average, for each one that always starts a chunk. Without such
// anchors, a small file that grows moves the borders of all groups up to the next large file. More of them make small
// chunks.
const anchorOneIn = 8

// Extent is the position of one file's bytes in the raw image.
type Extent struct {
	Start, Size int64  // bytes; Start is a multiple of BlockSize
	Name        string // stays the same in the next version of the image
}

// Split cuts a raw image into chunks of at most limit bytes and returns their sizes. files must be sorted by Start and
// must not overlap; all sizes are multiples of BlockSize. A file of at least half a chunk has its own chunks; smaller
// ones are grouped. Bytes of no file (inodes, directories), which always change, get chunks of their own.
func Split(size int64, files []Extent, limit int) ([]int, error) {
	s := splitter{limit: int64(limit)}
	if limit <= 0 || limit > MaxRaw || limit%BlockSize != 0 {
		return nil, fmt.Errorf(
			"split image: chunks of %d bytes, want a multiple of %d up to %d",
			limit,
			BlockSize,
			MaxRaw,
		)
	}
	if size <= 0 || size%BlockSize != 0 {
		return nil, fmt.Errorf("split image: %d bytes are not a multiple of %d", size, BlockSize)
	}
	for _, f := range files {
		n := (f.Size + BlockSize - 1) / BlockSize * BlockSize
		if f.Start%BlockSize != 0 || f.Start < s.end || f.Size <= 0 || n > size-f.Start {
			return nil, fmt.Errorf("split image: file %q of %d bytes at %d overlaps another one or the end at %d",
				f.Name, f.Size, f.Start, size)
		}
		s.alone(f.Start - s.end)
		switch {
		case f.Size >= s.limit/2:
			s.alone(n)
		default:
			s.grouped(n, isAnchor(f.Name))
		}
	}
	s.alone(size - s.end)
	s.cut()
	return s.sizes, nil
}

func isAnchor(name string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum32()%anchorOneIn == 0
}

// splitter has cut all bytes before start into chunks. The bytes from start to end wait for the next cut.
type splitter struct {
	limit      int64
	start, end int64
	sizes      []int
}

func (s *splitter) cut() {
	if s.end > s.start {
		s.sizes = append(s.sizes, int(s.end-s.start))
	}
	s.start = s.end
}

// alone takes n bytes that share no chunk with their neighbours.
func (s *splitter) alone(n int64) {
	if n == 0 {
		return
	}
	s.cut()
	for ; n > s.limit; n -= s.limit {
		s.end += s.limit
		s.cut()
	}
	s.end += n
	s.cut()
}

// grouped takes n bytes, at most half of the limit, that may share a chunk with their neighbours.
func (s *splitter) grouped(n int64, anchor bool) {
	if anchor || s.end+n-s.start > s.limit {
		s.cut()
	}
	s.end += n
}
