package blockdev

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// With room for four pieces, streaming pauses before it drops unread pieces, and continues as the boot does. A boot
// that reads in order fetches nothing twice.
func TestStreamingWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img := randomImage(t, 160)
		m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 160}}, 8)
		src, r := &source{img: img}, &record{keep: 4 * 8 * chunk.BlockSize}
		o := r.options(img, src, m)
		o.Cache = 1
		d, err := Open(t.Context(), src, o)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		p := make([]byte, 8*chunk.BlockSize)
		for i := range m.Pieces {
			synctest.Wait()
			if came := src.total() - 1; came < i || came > i+4 {
				t.Errorf("%d pieces came when %d were read", came, i)
			}
			if err := d.ReadAt(t.Context(), p, int64(i*len(p))); err != nil ||
				!bytes.Equal(p, img.raw[i*len(p):][:len(p)]) {
				t.Errorf("piece %d: wrong bytes or %v", i, err)
			}
		}
		if n := src.total() - 1; n != len(m.Pieces) {
			t.Errorf("%d fetches for %d pieces", n, len(m.Pieces))
		}
		// A dropped piece is fetched again when it is read again, and makes room for itself.
		if err := d.ReadAt(t.Context(), p, 0); err != nil || !bytes.Equal(p, img.raw[:len(p)]) {
			t.Errorf("the first piece again: wrong bytes or %v", err)
		}
		if _, held, _ := r.store.Piece(0); !held {
			t.Error("the first piece is not kept after it was read again")
		}
	})
}

// The limit counts the memory that a piece takes: the heap gives a piece of 36 KiB 40 KiB.
func TestRoomIsOfMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img := randomImage(t, 144)
		m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 144}}, 9)
		src, r := &source{img: img}, &record{keep: 4 * 9 * chunk.BlockSize}
		d, err := Open(t.Context(), src, r.options(img, src, m))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		synctest.Wait()
		if came := src.total() - 1; came != 3 {
			t.Errorf("%d pieces of 36 KiB came into %d KiB, want 3", came, r.keep>>10)
		}
	})
}

// Completely read pieces are dropped first, but not the latest. A piece that a read needs displaces the one that is
// read last, if that comes later in the order. A piece that the boot has passed is dropped.
func TestReadTakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img := randomImage(t, 160)
		m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 160}}, 8)
		src, r := &source{img: img}, &record{keep: 4 * 8 * chunk.BlockSize}
		o := r.options(img, src, m)
		o.Cache = 1
		d, err := Open(t.Context(), src, o)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		p := make([]byte, 8*chunk.BlockSize)
		read := func(i int) {
			if err := d.ReadAt(t.Context(), p, int64(i*len(p))); err != nil ||
				!bytes.Equal(p, img.raw[i*len(p):][:len(p)]) {
				t.Errorf("piece %d: wrong bytes or %v", i, err)
			}
			synctest.Wait()
		}
		kept := func(want ...int) {
			t.Helper()
			var got []int
			for i := range m.Pieces {
				if _, held, _ := r.store.Piece(i); held {
					got = append(got, i)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("pieces %v are kept, want %v", got, want)
			}
		}
		synctest.Wait()
		read(19)
		kept(0, 1, 2, 3)
		read(2)
		read(3)
		kept(0, 1, 3, 4)
		read(0)
		read(4)
		kept(1, 4, 5, 6)
		read(2)
		kept(1, 2, 4, 5)
		read(5)
		kept(5, 6, 7, 8) // the boot is past piece 1
		if n := src.gets[m.Pieces[6].ID]; n != 2 {
			t.Errorf("piece 6 was fetched %d times, want once more after it made room", n)
		}
	})
}

// Four programs that start side by side read the pack out of order. With room for a quarter of the pack nothing is
// fetched twice: the store waits for programs that are behind.
func TestDisorderFetchesNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const blocks, program = 1600, 40 // alternating in 40 blocks, which are five pieces
		img := randomImage(t, blocks)
		m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: blocks}}, 8)
		src, r := &source{img: img}, &record{keep: m.StoredSize() / 4}
		o := r.options(img, src, m)
		o.Cache = 1
		d, err := Open(t.Context(), src, o)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		p := make([]byte, 4*chunk.BlockSize) // half a piece
		for begin := 0; begin < blocks; begin += 4 * program {
			for at := 0; at < program; at += 4 {
				for _, of := range []int{3, 1, 0, 2} { // the pack has their parts one after the other
					synctest.Wait()
					off := (begin + of*program + at) * chunk.BlockSize
					if err := d.ReadAt(t.Context(), p, int64(off)); err != nil ||
						!bytes.Equal(p, img.raw[off:][:len(p)]) {
						t.Fatalf("wrong bytes at %d, or %v", off, err)
					}
				}
			}
		}
		if n := src.total() - 1; n != len(m.Pieces) {
			t.Errorf("%d fetches for %d pieces", n, len(m.Pieces))
		}
	})
}

// Streamed pieces for later reads arrive when the boot is over, and not before.
func TestStreamedRestComesWhenTheBootIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img := randomImage(t, 160)
		m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 160}}, 16) // ten pieces
		m.Booted = 6
		src, r := &source{img: img}, &record{}
		d, err := Open(t.Context(), src, r.options(img, src, m))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for i := range m.Booted {
			if err := d.ReadAt(t.Context(), make([]byte, chunk.BlockSize), int64(i*16*chunk.BlockSize)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := src.total() - 1; n != m.Booted {
			t.Errorf("in the boot %d pieces came, want %d", n, m.Booted)
		}
		r.store.BootOver()
		synctest.Wait()
		if n := src.total() - 1; n != len(m.Pieces) {
			t.Errorf("after the boot %d pieces came, want %d", n, len(m.Pieces))
		}
	})
}
