package blockdev

import "sync"

// buffers holds dropped segments for reuse. Without it, a boot would unpack pieces so fast that the garbage collector
// runs all the time.
type buffers struct {
	mu   sync.Mutex
	free [][]byte
}

// get returns a segment with any contents.
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

// put takes a segment that is not used any more.
func (b *buffers) put(x []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, x[:segment])
}

// limit keeps at most that number of bytes, and leaves the rest to the garbage collector.
func (b *buffers) limit(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if most := int(max(0, bytes) / segment); len(b.free) > most {
		clear(b.free[most:])
		b.free = b.free[:most]
	}
}

// size returns how many bytes are free.
func (b *buffers) size() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(len(b.free)) * segment
}
