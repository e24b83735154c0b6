package blockdev

import "sync"

// buffers are segments that were let go of, for those that come: a boot unpacks its pieces at a rate at which the
// garbage collector would run all the time, in as little memory as there is.
type buffers struct {
	mu   sync.Mutex
	free [][]byte
}

// get returns a segment with anything in it.
func (b *buffers) get() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := len(b.free) - 1
	if last < 0 {
		return make([]byte, segment)
	}
	x := b.free[last]
	b.free = b.free[:last]
	return x
}

// put takes a segment that nobody uses any more.
func (b *buffers) put(x []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, x[:segment])
}

// limit leaves to the garbage collector what is above so many bytes.
func (b *buffers) limit(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if most := int(max(0, bytes) / segment); len(b.free) > most {
		clear(b.free[most:])
		b.free = b.free[:most]
	}
}

// size is how many bytes are free.
func (b *buffers) size() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(len(b.free)) * segment
}
