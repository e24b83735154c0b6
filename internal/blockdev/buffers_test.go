package blockdev

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"

	"pando/internal/chunk"
)

// Raw bytes are used again, and never while a read still takes from them: with room for two pieces, readers that
// each want others, now and then what was read and let go of, get what they ask for.
func TestBuffersAreUsedAgain(t *testing.T) {
	t.Run("a piece is a segment", func(t *testing.T) { usedAgain(t, 8) })
	t.Run("of three", func(t *testing.T) { usedAgain(t, 20) })
}

func usedAgain(t *testing.T, blocks int) {
	img := newImage(t, 150, 40)
	m := img.everyOther(t, blocks)
	d, err := Open(
		t.Context(),
		&source{img: img},
		Options{
			Index: img.index,
			Cache: 2 * rawCost(blocks*chunk.BlockSize),
			Pack:  &Pack{Map: m, Source: &source{img: img}},
		},
	)
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

// A pack that may be kept whole lies in one piece of memory, each piece at its own place, once.
func TestShelf(t *testing.T) {
	stored := [][]byte{[]byte("one"), []byte("three"), []byte("seven")}
	var pieces []chunk.Entry
	var came []chunk.Verified
	for _, b := range stored {
		v, err := chunk.Check(chunk.Sum(b), b)
		if err != nil {
			t.Fatal(err)
		}
		pieces, came = append(pieces, chunk.Entry{ID: v.ID(), StoredSize: len(b)}), append(came, v)
	}
	s := newShelf(pieces, 13)
	for _, i := range []int{2, 0, 1} {
		v := s.put(i, came[i])
		if v.ID() != came[i].ID() || !bytes.Equal(v.Stored(), stored[i]) || cap(v.Stored()) != len(stored[i]) {
			t.Errorf("piece %d came as %q, of %d bytes", i, v.Stored(), cap(v.Stored()))
		}
		if unsafe.SliceData(v.Stored()) == unsafe.SliceData(stored[i]) {
			t.Errorf("piece %d is where it came", i)
		}
		if again := s.put(i, came[i]); unsafe.SliceData(again.Stored()) != unsafe.SliceData(stored[i]) {
			t.Errorf("piece %d is written a second time", i)
		}
	}
	if string(s.memory) != "onethreeseven" {
		t.Errorf("%q", s.memory)
	}
	few := newShelf(pieces, 12)
	if v := few.put(0, came[0]); few.memory != nil || unsafe.SliceData(v.Stored()) != unsafe.SliceData(stored[0]) {
		t.Error("what may have to make room is on the shelf")
	}
}
