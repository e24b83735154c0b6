package blockdev

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// piece fetcher notes what a device tells.
type testFetcher struct {
	mu      sync.Mutex
	dropped []int
	ahead   []int
	moved   int
}

func (f *testFetcher) Ahead(p int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ahead = append(f.ahead, p)
}

func (f *testFetcher) Dropped(p int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropped = append(f.dropped, p)
}

func (f *testFetcher) Moved() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moved++
}

// A device with a piece fetcher fetches no piece that nobody reads. It takes what is brought as far as there is
// room, says how far that is, and what it let go of; reads make room for more.
func TestPieceFetcher(t *testing.T) {
	img := randomImage(t, 160)
	m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 160}}, 16) // ten pieces of 64 KiB
	piece := func(i int) chunk.Verified {
		v, err := chunk.Check(m.Pieces[i].ID, img.objects[m.Pieces[i].ID])
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	src, r, f := &source{img: img}, &record{}, &testFetcher{}
	o := r.options(img, src, m)
	o.Pack.Fetcher, o.Pack.Keep = f, 4*64<<10+100
	d := open(t, src, o)
	defer d.Close()
	if d.Reach() != 4 {
		t.Fatalf("a reach of %d with room for four", d.Reach())
	}
	for _, i := range []int{3, 0, 2, 1} {
		for range 2 {
			if !d.Put(i, piece(i)) {
				t.Errorf("piece %d was not taken", i)
			}
		}
	}
	if d.Put(4, piece(4)) || d.Put(0, piece(1)) || d.Put(99, piece(0)) {
		t.Error("took a piece that has no room, or is another")
	}
	got := make([]byte, 16*chunk.BlockSize)
	for block := int64(0); block < 2*16; block += 16 {
		if err := d.ReadAt(t.Context(), got, block*chunk.BlockSize); err != nil {
			t.Fatal(err)
		}
	}
	if f.moved != 2 || d.Reach() != 5 { // the first piece makes room; the one that was read last is not let go of yet
		t.Errorf("told %d times that reads went on; a reach of %d", f.moved, d.Reach())
	}
	if !d.Put(4, piece(4)) || len(f.dropped) != 1 || f.dropped[0] != 0 {
		t.Errorf("let go of %v", f.dropped)
	}
	if _, kept := d.Piece(0); kept {
		t.Error("it is there and was let go of")
	}
	if n := src.total(); n != 1 {
		t.Errorf("%d objects fetched, want the index root alone", n)
	}
	readAll(t, d, img)
	if r.unread != 0 {
		t.Errorf("%d bytes not read after everything was", r.unread)
	}
}

// A piece that is read before it is brought is fetched, by the pack's source.
func TestPieceFetcherIsNotWaitedFor(t *testing.T) {
	img := randomImage(t, 64)
	m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 64}}, 16)
	src, r := &source{img: img}, &record{}
	o := r.options(img, src, m)
	asked := 0
	o.Pack.Fetcher = &testFetcher{}
	o.Pack.Source = chunk.SourceFunc(func(ctx context.Context, q chunk.Request) (chunk.Verified, error) {
		asked++
		return src.Get(ctx, q)
	})
	d := open(t, src, o)
	defer d.Close()
	if err := d.ReadAt(t.Context(), make([]byte, 4096), 40*chunk.BlockSize); err != nil || asked != 1 {
		t.Errorf("%d fetches, %v", asked, err)
	}
}

// A device that keeps pieces across boots streams those. What it does not have any more is left to the piece fetcher,
// once, without waiting for it; a read of it is not.
func TestPieceFetcherBringsWhatIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img := randomImage(t, 160)
		m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 160}}, 16) // ten pieces
		src, r, f := &source{img: img}, &record{}, &testFetcher{}
		o := r.options(img, src, m)
		o.Pack.Fetcher = f
		damaged := map[chunk.ID]int{}
		for _, i := range []int{2, 3, 7} {
			damaged[m.Pieces[i].ID] = i
		}
		piece := func(id chunk.ID) chunk.Verified {
			v, err := chunk.Check(id, img.objects[id])
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		o.Pack.Kept = func(_ context.Context, q chunk.Request) (chunk.Verified, bool) {
			id := q.ID
			if _, bad := damaged[id]; bad {
				return chunk.Verified{}, false
			}
			return piece(id), true
		}
		d, err := Open(t.Context(), src, o)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		synctest.Wait()
		slices.Sort(f.ahead)
		if n := src.total(); !slices.Equal(f.ahead, []int{2, 3, 7}) || n != 1 || d.Reach() != 10 {
			t.Fatalf(
				"left to the testFetcher: %v; %d objects were fetched, want the index root alone; a reach of %d",
				f.ahead,
				n,
				d.Reach(),
			)
		}
		if err := d.ReadAt(t.Context(), make([]byte, chunk.BlockSize), 3*16*chunk.BlockSize); err != nil ||
			src.total() != 2 {
			t.Errorf("a read of what is left to the testFetcher: %v, %d objects fetched", err, src.total())
		}
		for id, i := range damaged {
			if !d.Put(i, piece(id)) {
				t.Errorf("piece %d was not taken", i)
			}
		}
		readAll(t, d, img)
		if n := src.total(); n != 2 || len(f.ahead) != 3 {
			t.Errorf("%d objects fetched in the end; the testFetcher was told of %v", n, f.ahead)
		}
	})
}

// What came and was not read of the pieces after booted is counted apart.
func TestUnreadAfterBooted(t *testing.T) {
	img := randomImage(t, 64)
	m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 64}}, 16)
	m.Booted = 3
	src, r := &source{img: img}, &record{}
	o := r.options(img, src, m)
	o.Pack.Fetcher = &testFetcher{}
	d := open(t, src, o)
	defer d.Close()
	for i, e := range m.Pieces {
		v, err := chunk.Check(e.ID, img.objects[e.ID])
		if err != nil || !d.Put(i, v) {
			t.Fatalf("piece %d was not taken, or %v", i, err)
		}
	}
	if r.unread != 48*chunk.BlockSize || r.late != 16*chunk.BlockSize {
		t.Errorf("%d bytes until booted are not read, and %d later", r.unread, r.late)
	}
	for _, block := range []int64{1, 47, 48, 63, 63} {
		if err := d.ReadAt(t.Context(), make([]byte, chunk.BlockSize), block*chunk.BlockSize); err != nil {
			t.Fatal(err)
		}
	}
	if r.unread != 46*chunk.BlockSize || r.late != 14*chunk.BlockSize {
		t.Errorf("%d bytes until booted are not read, and %d later", r.unread, r.late)
	}
}
