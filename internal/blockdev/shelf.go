package blockdev

import (
	"syscall"

	"pando/internal/chunk"
)

// shelf is memory for all pieces of a pack, one after the other, outside of the heap. That gives each object whole
// pages of 8 KiB, which for the 2,000 pieces of a desktop is 8 MB of nothing; and by how much it may grow until
// garbage is collected depends on what is in it. The pages of a piece that does not come are never touched. A shelf
// is not given back: who was given a piece may have it for as long as it likes.
type shelf struct {
	memory []byte // nil: there is no room for all pieces
	ends   []int64
	full   []bool
}

// newShelf returns a shelf for pieces, if all of them may be kept: then none makes room for another, and no place
// is written twice while somebody reads it.
func newShelf(pieces []chunk.Entry, keep int64) shelf {
	end, ends := int64(0), make([]int64, len(pieces))
	for i, e := range pieces {
		end += int64(e.StoredSize)
		ends[i] = end
	}
	if end > keep {
		return shelf{}
	}
	memory, err := syscall.Mmap(
		-1,
		0,
		int(end),
		syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON,
	)
	if err != nil {
		return shelf{} // pieces stay where they come
	}
	return shelf{memory: memory, ends: ends, full: make([]bool, len(pieces))}
}

// put returns piece i as it is kept: at its place, or where it came if it came before. One goroutine calls it at a
// time.
func (s *shelf) put(i int, v chunk.Verified) chunk.Verified {
	if s.memory == nil || s.full[i] {
		return v
	}
	s.full[i] = true
	begin := int64(0)
	if i > 0 {
		begin = s.ends[i-1]
	}
	return v.Copied(s.memory[begin:s.ends[i]:s.ends[i]])
}
