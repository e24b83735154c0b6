package blockdev

import (
	"slices"
	"sync"
)

// buffers are raw bytes that were let go of, for those that come: a boot unpacks its pieces at a rate at which the garbage collector would
// run all the time, in as little memory as there is.
type buffers struct {
	mu   sync.Mutex
	size int64
	free [][]byte
}

// get returns n bytes with anything in them: the smallest that are free and long enough, unless most of them would lie idle.
func (b *buffers) get(n int) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	best := -1
	for i, x := range b.free {
		if cap(x) >= n && cap(x) <= 2*n && (best < 0 || cap(x) < cap(b.free[best])) {
			best = i
		}
	}
	if best < 0 {
		return make([]byte, n)
	}
	x := b.free[best]
	b.free = slices.Delete(b.free, best, best+1)
	b.size -= int64(cap(x))
	return x[:n]
}

// put takes bytes that nobody uses any more. What is above the limit, in bytes, is left to the garbage collector, what was put first before
// the rest.
func (b *buffers) put(x []byte, limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, x)
	for b.size += int64(cap(x)); b.size > limit; {
		b.size -= int64(cap(b.free[0]))
		b.free = slices.Delete(b.free, 0, 1)
	}
}
