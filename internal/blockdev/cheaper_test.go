package blockdev

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// A node that has the chunks of a piece, or most of their bytes, does not fetch the piece. A node that has nothing
// fetches pieces, and no index page for the decision.
func TestPiecesOfWhatIsThere(t *testing.T) {
	img := newImage(t, 150, 40)
	blocks := uint32(len(img.raw) / chunk.BlockSize)
	m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: blocks / 2}, {Start: blocks/2 + 8, Blocks: blocks/2 - 8}}, 64)
	piece := map[chunk.ID]bool{}
	for _, e := range m.Pieces {
		piece[e.ID] = true
	}
	page := map[chunk.ID]bool{}
	for _, p := range img.pages {
		page[p.ID] = true
	}
	for name, x := range map[string]struct {
		has    func(chunk.ID) bool
		pieces int // pieces that are fetched
		pages  bool
	}{
		"nothing":           {func(chunk.ID) bool { return false }, len(m.Pieces), false},
		"all but pages":     {func(id chunk.ID) bool { return !piece[id] && !page[id] }, len(m.Pieces), false},
		"all but pieces":    {func(id chunk.ID) bool { return !piece[id] }, 0, true},
		"pages and nothing": {func(id chunk.ID) bool { return page[id] }, len(m.Pieces), true},
	} {
		t.Run(name, func(t *testing.T) {
			src, r := &source{img: img}, &record{}
			o := r.idle(img, src, m)
			o.Ahead, o.Pack.Has = 0, x.has
			d := open(t, src, o)
			for i := range m.Pieces {
				_, _ = d.sent(i)
			}
			pieces, pages := 0, 0
			for id := range src.gets {
				if piece[id] {
					pieces++
				}
				if page[id] {
					pages++
				}
			}
			// One of the pieces repeats itself, so it costs less as chunks even if the node has none.
			if pieces > x.pieces || pieces < x.pieces-1 || (pages > 0) != x.pages {
				t.Errorf("%d of %d pieces and %d pages were fetched", pieces, len(m.Pieces), pages)
			}
			got := make([]byte, len(img.raw))
			if err := d.ReadAt(t.Context(), got, 0); err != nil || !bytes.Equal(got, img.raw) {
				t.Errorf("wrong bytes, or %v", err)
			}
			if of := int(d.pack.ends[len(m.Pieces)-1]); r.served["pack"]+r.served["spared"] != of {
				t.Errorf(
					"of %d bytes in the pack %d are said to be from it, %d to be spared",
					of,
					r.served["pack"],
					r.served["spared"],
				)
			}
			if len(r.lost) != 0 {
				t.Errorf("pieces are said to be lost: %v", r.lost)
			}
		})
	}
}

// A node that keeps objects asks for no piece before the index root is there. The root tells whether the node has the
// blocks as chunks; such pieces are not left to the swarm.
func TestPiecesOfWhatIsKeptWaitForTheIndexRoot(t *testing.T) {
	for name, x := range map[string]struct {
		has  func(bootpack.Map) func(chunk.ID) bool
		left int // pieces left to the swarm
	}{
		"all chunks": {func(m bootpack.Map) func(chunk.ID) bool {
			return func(id chunk.ID) bool {
				return !isPiece(m,
					id)
			}
		}, 0},
		"none": {func(bootpack.Map) func(chunk.ID) bool { return func(chunk.ID) bool { return false } }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				img := randomImage(t, 96)
				m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 96}}, 24) // no piece is a chunk
				src, r := &source{img: img}, &record{}
				o := r.options(img, src, m)
				f := follow(r.store)
				o.Size, o.Pack.Has = int64(len(img.raw)), x.has(m)
				o.Pack.Kept = func(context.Context, chunk.Request) (chunk.Verified, bool) {
					return chunk.Verified{},
						false
				}
				rooted := openBeforeTheRoot(t, src, o)
				if f.look(); len(f.left) != 0 {
					t.Errorf("pieces %v are left to the swarm before the index root is there", f.left)
				}
				d := rooted()
				synctest.Wait()
				if f.look(); len(f.left) != x.left {
					t.Errorf("pieces %v are left to the swarm, want %d", f.left, x.left)
				}
				readAll(t, d, img)
				d.Close()
			})
		})
	}
}

// openBeforeTheRoot opens a device whose index root is delayed, and returns when everything that needs no root is done.
// rooted delivers the root.
func openBeforeTheRoot(t *testing.T, src *source, o Options) (rooted func() *Device) {
	t.Helper()
	late, opened := make(chan struct{}), make(chan *Device)
	src.before = func(_ context.Context, id chunk.ID) error {
		if id == o.Index {
			<-late
		}
		return nil
	}
	go func() {
		d, err := Open(t.Context(), src, o)
		if err != nil {
			t.Error(err)
		}
		opened <- d
	}()
	synctest.Wait()
	return func() *Device {
		close(late)
		return <-opened
	}
}

func isPiece(m bootpack.Map, id chunk.ID) bool {
	return slices.ContainsFunc(m.Pieces, func(e chunk.Entry) bool { return e.ID == id })
}

// The boot pack arrives before the index root. It is not known then whether the node has a piece's blocks, so the piece
// is fetched.
func TestPiecesBeforeTheIndexRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img := randomImage(t, 64)
		m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 64}}, 16)
		src, r := &source{img: img}, &record{}
		o := r.options(img, src, m)
		o.Size, o.Pack.Has = int64(len(img.raw)), func(chunk.ID) bool { return false }
		rooted := openBeforeTheRoot(t, src, o)
		if n := src.total(); n != 1+len(m.Pieces) {
			t.Errorf(
				"%d objects were asked for before the index root was there, want it and %d pieces",
				n,
				len(m.Pieces),
			)
		}
		d := rooted()
		readAll(t, d, img)
		d.Close()
	})
}
