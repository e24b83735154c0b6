package blockdev

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
	"pando/internal/piecestore"
)

// follower records what a piece store tells a swarm.
type follower struct {
	store         *piecestore.Store
	told          atomic.Int32
	dropped, left []int
}

func follow(s *piecestore.Store) *follower {
	f := &follower{store: s}
	s.Follow(func() { f.told.Add(1) })
	return f
}

// look takes the changes, and returns how many pieces may be fetched.
func (f *follower) look() int {
	changed, left, reach := f.store.Changes()
	for _, i := range changed {
		if _, held, _ := f.store.Piece(i); !held {
			f.dropped = append(f.dropped, i)
		}
	}
	f.left = append(f.left, left...)
	return reach
}

// Beside a swarm, a device fetches only pieces that are read. Its store accepts pieces while there is room, and tells
// the follower how far that is and what was dropped. Reads make room for more.
func TestPiecesOfASwarm(t *testing.T) {
	img := randomImage(t, 160)
	m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 160}}, 16) // ten pieces of 64 KiB
	piece := func(i int) chunk.Verified {
		v, err := chunk.Check(m.Pieces[i].ID, img.objects[m.Pieces[i].ID])
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	src, r := &source{img: img}, &record{keep: 4*64<<10 + 100}
	d := open(t, src, r.idle(img, src, m))
	defer d.Close()
	f := follow(r.store)
	if reach := f.look(); reach != 4 {
		t.Fatalf("a reach of %d with room for four", reach)
	}
	for _, i := range []int{3, 0, 2, 1} {
		for range 2 {
			if !r.store.Put(i, piece(i), false) {
				t.Errorf("piece %d was not taken", i)
			}
		}
	}
	if r.store.Put(4, piece(4), false) || r.store.Put(0, piece(1), false) || r.store.Put(99, piece(0), false) {
		t.Error("took a piece that has no room, or is another")
	}
	f.told.Store(0)
	got := make([]byte, 16*chunk.BlockSize)
	for block := int64(0); block < 2*16; block += 16 {
		if err := d.ReadAt(t.Context(), got, block*chunk.BlockSize); err != nil {
			t.Fatal(err)
		}
	}
	// the first piece was dropped; the piece read last was not
	if reach := f.look(); f.told.Load() != 2 || reach != 5 {
		t.Errorf("told %d times that reads went on; a reach of %d", f.told.Load(), reach)
	}
	took := r.store.Put(4, piece(4), false)
	if f.look(); !took || len(f.dropped) != 1 || f.dropped[0] != 0 {
		t.Errorf("let go of %v", f.dropped)
	}
	if _, held, _ := r.store.Piece(0); held {
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

// A piece that is read before the swarm brings it is fetched from the pack's source.
func TestSwarmIsNotWaitedFor(t *testing.T) {
	img := randomImage(t, 64)
	m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 64}}, 16)
	src, r := &source{img: img}, &record{}
	o := r.idle(img, src, m)
	asked := 0
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

// A device that keeps pieces across boots streams those. A piece that it lacks is left to the swarm, once, without
// waiting. A read of such a piece fetches it.
func TestSwarmBringsWhatIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img := randomImage(t, 160)
		m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 160}}, 16) // ten pieces
		src, r := &source{img: img}, &record{}
		o := r.options(img, src, m)
		f := follow(r.store)
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
		reach := f.look()
		slices.Sort(f.left)
		if n := src.total(); !slices.Equal(f.left, []int{2, 3, 7}) || n != 1 || reach != 10 {
			t.Fatalf(
				"left to the swarm: %v; %d objects were fetched, want the index root alone; a reach of %d",
				f.left,
				n,
				reach,
			)
		}
		if err := d.ReadAt(t.Context(), make([]byte, chunk.BlockSize), 3*16*chunk.BlockSize); err != nil ||
			src.total() != 2 {
			t.Errorf("a read of what is left to the swarm: %v, %d objects fetched", err, src.total())
		}
		for id, i := range damaged {
			if !r.store.Put(i, piece(id), false) {
				t.Errorf("piece %d was not taken", i)
			}
		}
		readAll(t, d, img)
		f.look()
		if n := src.total(); n != 2 || len(f.left) != 3 {
			t.Errorf("%d objects fetched in the end; the swarm was told of %v", n, f.left)
		}
	})
}

// Unread bytes of the pieces after booted are counted separately.
func TestUnreadAfterBooted(t *testing.T) {
	img := randomImage(t, 64)
	m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 64}}, 16)
	m.Booted = 3
	src, r := &source{img: img}, &record{}
	d := open(t, src, r.idle(img, src, m))
	defer d.Close()
	for i, e := range m.Pieces {
		v, err := chunk.Check(e.ID, img.objects[e.ID])
		if err != nil || !r.store.Put(i, v, false) {
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
