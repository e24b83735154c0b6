package blockdev

import (
	"bytes"
	"testing"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// Segments that were read make room while the rest of the piece stays. A read again unpacks the piece again, which is
// then kept: the kernel did not keep it.
func TestWhatWasReadOfAPieceMakesRoom(t *testing.T) {
	img := randomImage(t, 80)
	src, r := &source{img: img}, &record{}
	d := open(t, src, r.idle(img, src, img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 72}}, 36)))
	defer d.Close()
	read := func(block, blocks int64) {
		t.Helper()
		p := make([]byte, blocks*chunk.BlockSize)
		if err := d.ReadAt(t.Context(), p, block*chunk.BlockSize); err != nil ||
			!bytes.Equal(p, img.raw[block*chunk.BlockSize:][:len(p)]) {
			t.Errorf("blocks %d to %d: other bytes, or %v", block, block+blocks-1, err)
		}
	}
	kept := func(want int64) {
		t.Helper()
		if got := d.raws.kept.cost; got != want*segment {
			t.Errorf("%d segments are kept, want %d", got/segment, want)
		}
	}
	read(0, 1)
	kept(5)
	read(1, 6)
	kept(5)
	read(7, 1)
	kept(4)
	read(10, 13)
	kept(4)
	read(8, 2)
	kept(3)
	read(23, 1)
	kept(2)
	for range 3 {
		read(4, 2) // no cache has it any more
		kept(5)
	}
	read(30, 1) // unread bytes: the boot continues
	kept(2)
	read(20, 5) // partly read
	kept(2)
	read(25, 5)
	read(31, 1)
	kept(1)
	read(32, 4)
	kept(0)
	if n := src.total() - 1; n != 1 {
		t.Errorf("%d pieces fetched", n)
	}
	if d.bufs.size() > d.opts.Cache {
		t.Errorf("%d bytes are free", d.bufs.size())
	}
}
