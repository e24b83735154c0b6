package initramfs

import (
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// packers is how many archives are compressed at a time: each takes some 100 MB, its own bytes, a window and the
// tables of the best level.
const packers = 2

// packing compresses archives for the kernel, some at a time. Each is compressed by itself, so its bytes do not
// depend on how many there are.
type packing struct {
	slots  chan struct{}
	enc    *zstd.Encoder
	done   sync.WaitGroup
	packed []*packedPart
}

type packedPart struct{ data []byte }

func newPacking() (*packing, error) {
	atOnce := min(packers, runtime.GOMAXPROCS(0))
	enc, err := newCPIOEncoder(atOnce)
	return &packing{slots: make(chan struct{}, atOnce), enc: enc}, err
}

// add waits until a processor is free: archives that wait are memory. What before remembers is not compressed
// again; before may be nil.
func (p *packing) add(raw []byte, before func([]byte) []byte) {
	part := &packedPart{}
	p.packed = append(p.packed, part)
	if before != nil {
		if part.data = before(raw); part.data != nil {
			return
		}
	}
	p.slots <- struct{}{}
	p.done.Go(func() {
		defer func() { <-p.slots }()
		part.data = p.enc.EncodeAll(raw, make([]byte, 0, len(raw)/2))
	})
}

// wait returns what was added, compressed, in its order.
func (p *packing) wait() (out [][]byte) {
	p.done.Wait()
	for _, part := range p.packed {
		out = append(out, part.data)
	}
	return out
}
