package initramfs

import (
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// packers is how many archives are compressed at a time. Each takes about 100 MB: its own bytes, a window, and the
// encoder's tables.
const packers = 2

// packing compresses archives for the kernel, several at a time. Each archive is compressed separately, so its bytes
// do not depend on the number of workers.
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

// add waits for a free slot, because waiting archives take memory, and compresses raw in a goroutine. If before is
// not nil and returns the compressed form, add uses that.
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

// wait returns the compressed archives in the order in which they were added.
func (p *packing) wait() (out [][]byte) {
	p.done.Wait()
	for _, part := range p.packed {
		out = append(out, part.data)
	}
	return out
}
