package blockdev

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"

	"pando/internal/chunk"
)

// Buffers are reused, and never while a read still copies from them: readers of different pieces, with room for two
// pieces and occasional drops, get the right bytes.
func TestBuffersAreUsedAgain(t *testing.T) {
	t.Run("a piece is a segment", func(t *testing.T) { usedAgain(t, 8) })
	t.Run("of three", func(t *testing.T) { usedAgain(t, 20) })
}

func usedAgain(t *testing.T, blocks int) {
	img := newImage(t, 150, 40)
	m := img.everyOther(t, blocks)
	o := new(record).options(img, &source{img: img}, m)
	o.Ahead, o.Cache = 0, 2*rawCost(blocks*chunk.BlockSize)
	d, err := Open(t.Context(), &source{img: img}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var work sync.WaitGroup
	for reader := range 8 {
		work.Go(func() {
			r := rand.New(rand.NewPCG(uint64(reader), 1))
			p := make([]byte, 10*chunk.BlockSize)
			for range 400 {
				off := r.IntN(len(img.raw) - len(p))
				if !d.ReadNow(p, int64(off)) {
					if err := d.ReadAt(t.Context(), p, int64(off)); err != nil {
						t.Error(err)
						return
					}
				}
				if !bytes.Equal(p, img.raw[off:off+len(p)]) {
					t.Errorf("bytes at %d are others", off)
					return
				}
			}
		})
	}
	work.Wait()
	if d.bufs.size() > d.opts.Cache || d.raws.kept.cost > d.opts.Cache {
		t.Errorf("%d bytes kept and %d free, the bound is %d", d.raws.kept.cost, d.bufs.size(), d.opts.Cache)
	}
	kept := d.raws.kept.cost
	d.raws.makeRoom(d.opts.Cache)
	if kept == 0 || d.bufs.size() < kept || d.raws.kept.cost != 0 {
		t.Errorf(
			"%d bytes were kept, and of those that are not kept any more %d are there to be used again",
			kept,
			d.bufs.size(),
		)
	}
}

func TestBuffers(t *testing.T) {
	var b buffers
	one, two := b.get(), b.get()
	b.put(one[:5])
	b.put(two)
	if x := b.get(); len(x) != segment || unsafe.SliceData(x) != unsafe.SliceData(two) || b.size() != segment {
		t.Errorf("%d bytes, and %d are free; want the segment that was put last", len(x), b.size())
	}
	b.put(two)
	b.limit(2*segment - 1)
	if x := b.get(); b.size() != 0 || len(x) != segment || unsafe.SliceData(x) != unsafe.SliceData(one) {
		t.Errorf("%d bytes are free where there was room for one segment", b.size())
	}
}
