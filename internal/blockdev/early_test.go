package blockdev

import (
	"bytes"
	"testing"
	"testing/synctest"

	"pando/internal/chunk"
	"pando/internal/image"
)

// openEarly opens half of an image with a pack of pieces of eight blocks, all of which have come.
func openEarly(t *testing.T, early bool, cache int64) (*testImage, *Device) {
	img := randomImage(t, 160)
	src, r := &source{img: img}, &record{}
	o := r.options(img, src, img.pack(t, []image.Extent{{Start: 0, Blocks: 80}}, 8))
	o.Early, o.Cache = early, cache
	d, err := Open(t.Context(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	synctest.Wait()
	return img, d
}

// readBlocks reads some blocks and lets all come to rest.
func readBlocks(t *testing.T, img *testImage, d *Device, block, n int) {
	t.Helper()
	p := make([]byte, n*chunk.BlockSize)
	if off := int64(block) * chunk.BlockSize; !d.ReadNow(p, off) {
		if err := d.ReadAt(t.Context(), p, off); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(p, img.raw[block*chunk.BlockSize:][:len(p)]) {
		t.Errorf("other bytes at block %d", block)
	}
	synctest.Wait()
}

// unpacked are the pieces of which raw bytes are there.
func unpacked(d *Device) (out []int) {
	for i, e := range d.pack.pieces {
		d.raws.mu.Lock()
		if d.raws.kept.has(rawKey{e.ID, true}) {
			out = append(out, i)
		}
		d.raws.mu.Unlock()
	}
	return out
}

// Who reads from a piece finds the next one unpacked, where that is wanted: one at each read, of those that nobody read from.
func TestNextPieceIsUnpackedEarly(t *testing.T) {
	for _, early := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			img, d := openEarly(t, early, 1<<20)
			readBlocks(t, img, d, 16, 1)
			want := []int{2}
			if early {
				want = []int{2, 3}
			}
			if got := unpacked(d); len(got) != len(want) {
				t.Errorf("early %v: pieces %v are unpacked, want %v", early, got, want)
			}
			if next := make([]byte, chunk.BlockSize); d.ReadNow(next, 24*chunk.BlockSize) != early {
				t.Errorf("early %v: the first block of the next piece was there: %v", early, !early)
			}
		})
	}
}

// Nothing makes room for it: what is unpacked and not read yet would have to be unpacked again.
func TestEarlyMakesNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img, d := openEarly(t, true, 2*segment)
		readBlocks(t, img, d, 0, 1)
		readBlocks(t, img, d, 40, 1)
		if got := unpacked(d); len(got) != 2 || got[0] != 0 && got[0] != 1 {
			t.Errorf("pieces %v are unpacked", got)
		}
		readBlocks(t, img, d, 1, 1)
		if d.raws.kept.cost > 2*segment {
			t.Errorf("%d bytes are kept", d.raws.kept.cost)
		}
	})
}

// Pieces that were read from are left alone, and so are those that have not come, and those beyond the next few.
func TestUpcoming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img, d := openEarly(t, true, 1<<20)
		d.pack.mu.Lock()
		d.pack.state[1].read = true
		d.pack.drop(2)
		d.pack.mu.Unlock()
		for want := 3; want <= nextFew; want++ {
			readBlocks(t, img, d, want-3, 1)
			if got := unpacked(d); got[len(got)-1] != want {
				t.Errorf("pieces %v are unpacked, want %d last", got, want)
			}
		}
		readBlocks(t, img, d, 7, 1)
		if got := unpacked(d); got[len(got)-1] > nextFew {
			t.Errorf("pieces %v are unpacked, and none after %d should be", got, nextFew)
		}
	})
}
