package chunk

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// decodersMost is how many objects one Decoder unpacks at a time. Further calls wait, which bounds the memory.
const decodersMost = 2

// Decoder unpacks objects. The zero value is ready; it must not be copied after its first use. Several goroutines may
// use it at once. For each concurrent call it keeps 0.2 MB and the largest buffer that was needed.
type Decoder struct {
	once  sync.Once
	zstd  *zstd.Decoder
	err   error
	slots chan struct{} // one for each object that is being unpacked

	mu   sync.Mutex
	free [][]byte // buffers; the one used last is at the end
}

// start makes the zstd decoder at the first use.
func (d *Decoder) start() error {
	d.once.Do(func() {
		d.slots = make(chan struct{}, decodersMost)
		d.zstd, d.err = zstd.NewReader(nil,
			zstd.WithDecoderConcurrency(min(4, max(decodersMost, runtime.GOMAXPROCS(0)))),
			zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(MaxRaw),
			zstd.WithDecoderMaxWindow(MaxRaw),
			zstd.IgnoreChecksum(true))
	})
	return d.err
}

// take waits for a slot and returns an empty buffer for need bytes. The caller must return it with give.
func (d *Decoder) take(need int) []byte {
	d.slots <- struct{}{}
	d.mu.Lock()
	defer d.mu.Unlock()
	var buffer []byte
	if last := len(d.free) - 1; last >= 0 {
		buffer, d.free = d.free[last], d.free[:last]
	}
	if cap(buffer) < need {
		buffer = make([]byte, 0, need)
	}
	return buffer
}

// give returns a buffer and frees its slot.
func (d *Decoder) give(buffer []byte) {
	d.mu.Lock()
	d.free = append(d.free, buffer)
	d.mu.Unlock()
	<-d.slots
}

// Decode unpacks stored into dst. The length of dst must be the raw size that the index states; any other size is an
// error. The caller must have called ID.Verify before. Several goroutines may call Decode at once.
func (d *Decoder) Decode(dst, stored []byte, codec Codec) error {
	return d.DecodeParts([][]byte{dst}, stored, codec)
}

// DecodeParts is Decode into several consecutive parts.
func (d *Decoder) DecodeParts(dst [][]byte, stored []byte, codec Codec) error {
	switch codec {
	case Zero:
		for _, part := range dst {
			clear(part)
		}
		return nil
	case Stored:
		if n := total(dst); len(stored) != n {
			return fmt.Errorf("unpack object: %d stored bytes, the index says %d", len(stored), n)
		}
		spread(dst, stored)
		return nil
	case Zstd:
		return d.unpackZstd(dst, stored)
	}
	return fmt.Errorf("unpack object: unknown %s", codec)
}

func total(parts [][]byte) (n int) {
	for _, part := range parts {
		n += len(part)
	}
	return n
}

// spread copies raw to the parts, one after the other.
func spread(dst [][]byte, raw []byte) {
	for _, part := range dst {
		raw = raw[copy(part, raw):]
	}
}

func (d *Decoder) unpackZstd(dst [][]byte, stored []byte) error {
	size := total(dst)
	if size > MaxRaw {
		return fmt.Errorf("unpack object: %d raw bytes, more than %d", size, MaxRaw)
	}
	if err := d.start(); err != nil {
		return fmt.Errorf("unpack object: %w", err)
	}
	buffer := d.take(size + spare)
	defer d.give(buffer)
	out, err := d.zstd.DecodeAll(stored, buffer[:0:size+spare])
	switch {
	case err != nil && !errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Errorf("unpack object: %w", err)
	case err != nil || len(out) != size:
		return fmt.Errorf("unpack object: it holds %d raw bytes, the index says %d", len(out), size)
	}
	spread(dst, out)
	return nil
}

// spare is how many bytes a buffer is longer than the data unpacked into it. With this room the zstd decoder need not
// check each write in the last block of a frame, which has at most 128 KiB.
const spare = 128<<10 + 16
