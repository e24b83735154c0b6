package blockdev

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// openUnpacking opens half of an image with a pack of pieces of eight blocks, all of which are held.
func openUnpacking(t *testing.T, early bool, cache int64) (*testImage, *Device) {
	img := randomImage(t, 160)
	src, r := &source{img: img}, &record{}
	o := r.options(img, src, img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 80}}, 8))
	o.UnpackAhead, o.Cache = early, cache
	d, err := Open(t.Context(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	synctest.Wait()
	return img, d
}

// readBlocks reads some blocks and waits until all goroutines are idle.
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

// unpacked returns the pieces whose raw bytes are in memory.
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

// wantUnpacked checks that the raw bytes of exactly these pieces are in memory.
func wantUnpacked(t *testing.T, d *Device, when string, want ...int) {
	t.Helper()
	if got := unpacked(d); !slices.Equal(got, want) {
		t.Errorf("%s: pieces %v are unpacked, want %v", when, got, want)
	}
}

// With UnpackAhead, a read of a piece unpacks the next piece, and after a pause the next few.
func TestNextPieceIsUnpackedAhead(t *testing.T) {
	for _, early := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			img, d := openUnpacking(t, early, 1<<20)
			readBlocks(t, img, d, 16, 1)
			if early {
				wantUnpacked(t, d, "at once", 2, 3)
			} else {
				wantUnpacked(t, d, "at once", 2)
			}
			if next := make([]byte, chunk.BlockSize); d.ReadNow(next, 24*chunk.BlockSize) != early {
				t.Errorf("early %v: the first block of the next piece was there: %v", early, !early)
			}
			time.Sleep(time.Minute)
			if early {
				wantUnpacked(t, d, "after a pause", 2, 3, 4, 5, 6, 7)
			} else {
				wantUnpacked(t, d, "after a pause", 2)
			}
		})
	}
}

// Without a pause in the reads, only one piece is unpacked ahead, because reads wait for unpacking.
func TestEarlyWaitsForPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img, d := openUnpacking(t, true, 1<<20)
		for block := range 8 { // of the first piece
			readBlocks(t, img, d, block, 1)
			if block < 7 {
				wantUnpacked(t, d, "between reads", 0, 1)
			}
			time.Sleep(unpackPause / 2)
		}
		wantUnpacked(t, d, "with the first piece read", 1)
		time.Sleep(unpackPause / 2)
		synctest.Wait()
		wantUnpacked(t, d, "after a pause", 1, 2)
		readBlocks(t, img, d, 8, 1)
		time.Sleep(unpackPause - 1)
		synctest.Wait()
		wantUnpacked(t, d, "before the end of the next pause", 1, 2)
	})
}

// Unpacking ahead drops nothing: unread bytes would have to be unpacked again.
func TestEarlyMakesNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img, d := openUnpacking(t, true, 2*segment)
		readBlocks(t, img, d, 0, 1)
		readBlocks(t, img, d, 40, 1)
		time.Sleep(time.Minute)
		if got := unpacked(d); len(got) != 2 || got[0] != 0 && got[0] != 1 {
			t.Errorf("pieces %v are unpacked", got)
		}
		readBlocks(t, img, d, 1, 1)
		time.Sleep(time.Minute)
		if d.raws.kept.cost > 2*segment {
			t.Errorf("%d bytes are kept", d.raws.kept.cost)
		}
	})
}

// Pieces are not unpacked ahead if they were read from, have not arrived, or are beyond the next few.
func TestUpcoming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img, d := openUnpacking(t, true, 1<<20)
		d.pack.Reads.Read(1, 0, 0)
		d.pack.Store.Lose(2, errors.New("it is gone"))
		readBlocks(t, img, d, 0, 1)
		wantUnpacked(t, d, "at once", 0, 3)
		time.Sleep(time.Minute)
		wantUnpacked(t, d, "after a pause", 0, 3, nextFew)
		readBlocks(t, img, d, 7, 1)
		time.Sleep(time.Minute)
		wantUnpacked(t, d, "at the end of the piece", 0, 3, nextFew)
	})
}
