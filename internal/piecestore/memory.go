package piecestore

import (
	"syscall"

	"pando/internal/chunk"
)

// memory holds all pieces of a pack, one after the other, in an anonymous mapping. On the heap each piece would take
// whole pages of 8 KiB and count for the pace of garbage collection. The mapping is never unmapped, because a caller
// may keep a piece. The zero value is empty.
type memory struct {
	bytes []byte // nil: not all pieces fit, so pieces are on the heap
	ends  []int64
	full  []bool
}

// newMemory returns a memory for pieces if all of them fit into limit bytes. Then no piece is dropped for another, and
// no place is written twice while a caller reads it.
func newMemory(pieces []chunk.Entry, limit int64) memory {
	end, ends := int64(0), make([]int64, len(pieces))
	for i, e := range pieces {
		end += int64(e.StoredSize)
		ends[i] = end
	}
	if end > limit {
		return memory{}
	}
	const prot, flags = syscall.PROT_READ | syscall.PROT_WRITE, syscall.MAP_PRIVATE | syscall.MAP_ANON
	bytes, err := syscall.Mmap(-1, 0, int(end), prot, flags)
	if err != nil {
		return memory{} // pieces stay on the heap
	}
	return memory{bytes: bytes, ends: ends, full: make([]bool, len(pieces))}
}

// put copies piece i to its place and returns the copy. It returns v itself if there is no mapping or the piece was put
// before. Calls must not run at the same time.
func (m *memory) put(i int, v chunk.Verified) chunk.Verified {
	if m.bytes == nil || m.full[i] {
		return v
	}
	m.full[i] = true
	begin := int64(0)
	if i > 0 {
		begin = m.ends[i-1]
	}
	return v.Copied(m.bytes[begin:m.ends[i]:m.ends[i]])
}
