package build

import (
	"errors"
	"runtime"
	"sync"
)

// packers is how many archives are compressed at a time: each takes some 300 MB, for its window and the tables of the best level.
const packers = 2

// packing compresses archives for the kernel, some at a time. Each is compressed by itself, so its bytes do not depend on how
// many there are.
type packing struct {
	slots  chan struct{}
	done   sync.WaitGroup
	packed []*packedPart
}

type packedPart struct {
	data []byte
	err  error
}

func newPacking() *packing {
	return &packing{slots: make(chan struct{}, min(packers, runtime.GOMAXPROCS(0)))}
}

// add waits until a processor is free: archives that wait are memory. What before remembers is not compressed again; before
// may be nil.
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
		part.data, part.err = compressCPIO(raw)
	})
}

// wait returns what was added, compressed, in its order.
func (p *packing) wait() (out [][]byte, err error) {
	p.done.Wait()
	for _, part := range p.packed {
		out, err = append(out, part.data), errors.Join(err, part.err)
	}
	return out, err
}
