package blockdev

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/piecestore"
)

// pack makes a boot pack of the blocks that extents name, cut into pieces of these numbers of blocks. The last number
// repeats.
func (img *testImage) pack(t testing.TB, extents []bootpack.Extent, cuts ...int) bootpack.Map {
	t.Helper()
	enc, err := chunk.NewEncoder(1)
	if err != nil {
		t.Fatal(err)
	}
	var raw []byte
	for _, e := range extents {
		if e.Unused() {
			raw = append(
				raw,
				bytes.Repeat([]byte("of another version"),
					int(e.Blocks)*chunk.BlockSize)[:int(e.Blocks)*chunk.BlockSize]...)
			continue
		}
		raw = append(raw, img.raw[int(e.Start)*chunk.BlockSize:int(e.End())*chunk.BlockSize]...)
	}
	p := bootpack.Map{Version: image.Version([]byte("a manifest")), Extents: extents}
	for i := 0; len(raw) > 0; i++ {
		n := min(cuts[min(i, len(cuts)-1)]*chunk.BlockSize, len(raw))
		stored, codec := enc.Encode(raw[:n])
		if codec == chunk.Zero {
			stored, codec = raw[:n], chunk.Stored
		}
		p.Pieces = append(p.Pieces, chunk.Entry{RawSize: n, StoredSize: len(stored), Codec: codec, ID: img.put(stored)})
		p.Proofs = append(p.Proofs, chunk.FastSum(stored))
		raw = raw[n:]
	}
	p.Booted = len(p.Pieces)
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return p
}

// drawExtents draws extents of an image of that number of blocks: no block twice, in any order, with unused blocks
// between them.
func drawExtents(rt *rapid.T, blocks int) []bootpack.Extent {
	var out []bootpack.Extent
	for at := 0; at < blocks; {
		at += rapid.IntRange(0, 40).Draw(rt, "gap")
		n := min(rapid.IntRange(1, 60).Draw(rt, "blocks"), blocks-at)
		if n <= 0 {
			break
		}
		out = append(out, bootpack.Extent{Start: uint32(at), Blocks: uint32(n)})
		at += n + 1 // adjacent extents must be apart in the pack
	}
	var mixed []bootpack.Extent
	for _, e := range rapid.Permutation(out).Draw(rt, "order") {
		if n := rapid.IntRange(-60, 30).Draw(rt, "unused"); n > 0 {
			mixed = append(mixed, bootpack.Extent{Start: bootpack.UnusedBlock, Blocks: uint32(n)})
		}
		mixed = append(mixed, e)
	}
	return mixed
}

// A piece is done when all its blocks were read that are part of the root. The others count as bytes that were not
// read.
func TestUnusedBlocks(t *testing.T) {
	img := newImage(t, 150, 40)
	m := img.pack(
		t,
		[]bootpack.Extent{
			{Start: bootpack.UnusedBlock, Blocks: 3},
			{Start: 20, Blocks: 40},
			{Start: bootpack.UnusedBlock, Blocks: 30},
			{Start: 80, Blocks: 20},
		},
		64,
		29,
	)
	src, r := &source{img: img}, &record{}
	d := open(t, src, r.idle(img, src, m))
	for _, read := range []struct{ block, n, piece int }{{20, 40, 0}, {80, 20, 1}} {
		p := make([]byte, read.n*chunk.BlockSize)
		off := read.block * chunk.BlockSize
		if err := d.ReadAt(t.Context(), p, int64(off)); err != nil || !bytes.Equal(p, img.raw[off:off+len(p)]) {
			t.Errorf("block %d: wrong bytes, or %v", read.block, err)
		}
		if _, there := d.raws.peek(rawKey{m.Pieces[read.piece].ID, true}); there {
			t.Errorf("piece %d waits for more reads", read.piece)
		}
	}
	if r.unread != 33*chunk.BlockSize {
		t.Errorf("%d bytes came for nothing", r.unread)
	}
}

// With any boot pack, any memory, and any lost or wrong pieces, a read returns the original bytes.
func TestReadAtAnyPack(t *testing.T) {
	img := newImage(t, 150, 40)
	rapid.Check(t, func(rt *rapid.T) {
		extents := drawExtents(rt, len(img.raw)/chunk.BlockSize)
		if len(extents) == 0 {
			return
		}
		m := img.pack(t, extents, rapid.SliceOfN(rapid.IntRange(1, 128), 1, 8).Draw(rt, "cuts")...)
		m.Booted = rapid.IntRange(0, len(m.Pieces)).Draw(rt, "booted")
		gone := rapid.SliceOfDistinct(rapid.IntRange(0, len(m.Pieces)-1), rapid.ID).Draw(rt, "gone")
		src := &source{img: img}
		r := &record{keep: rapid.SampledFrom([]int64{1, 100_000, 24 << 20}).Draw(rt, "keep")}
		o := r.options(img, without(src, m, gone), m)
		o.Ahead = rapid.SampledFrom([]int{-1, 2}).Draw(rt, "ahead")
		o.UnpackAhead = rapid.Bool().Draw(rt, "early")
		o.Cache = rapid.SampledFrom([]int64{1, 300_000, 4 << 20}).Draw(rt, "cache")
		if rapid.Bool().Draw(rt, "idle") {
			o.Pack.Stream = nil
		}
		o.Pack.Has = hasSome(rapid.ByteRange(0, 4).Draw(rt, "has"))
		d, err := Open(t.Context(), src, o)
		if err != nil {
			rt.Fatal(err)
		}
		defer d.Close()
		for range rapid.IntRange(1, 20).Draw(rt, "reads") {
			off := rapid.IntRange(0, len(img.raw)-1).Draw(rt, "off")
			p := make([]byte, rapid.IntRange(0, min(300_000, len(img.raw)-off)).Draw(rt, "len"))
			if !d.ReadNow(p, int64(off)) {
				if err := d.ReadAt(t.Context(), p, int64(off)); err != nil {
					rt.Fatal(err)
				}
			}
			if !bytes.Equal(p, img.raw[off:off+len(p)]) {
				rt.Fatalf("%d bytes at %d differ", len(p), off)
			}
		}
		held := int64(0)
		for i, e := range m.Pieces {
			if _, here, _ := r.store.Piece(i); here {
				held += int64(e.StoredSize)
			}
		}
		if held > r.keep {
			rt.Fatalf("%d bytes of pieces held, the bound is %d", held, r.keep)
		}
	})
}

// hasSome returns a cache that has that number of quarters of all objects.
func hasSome(quarters byte) func(chunk.ID) bool {
	return func(id chunk.ID) bool { return id.Sum[0]%4 < quarters }
}

// without is a source that has lost some pieces, and sends wrong bytes for some.
func without(src *source, m bootpack.Map, gone []int) chunk.Source {
	lost := map[chunk.ID]int{}
	for n, i := range gone {
		lost[m.Pieces[i].ID] = n
	}
	return chunk.SourceFunc(func(ctx context.Context, q chunk.Request) (chunk.Verified, error) {
		n, gone := lost[q.ID]
		switch {
		case gone && n%2 == 0:
			return chunk.Verified{}, errors.New("no such object")
		case gone:
			return chunk.Check(chunk.Sum([]byte("other")), []byte("other"))
		}
		return src.Get(ctx, q)
	})
}

// everyOther returns a pack of half of the blocks of an image, from its end to its start.
func (img *testImage) everyOther(t testing.TB, cut int) bootpack.Map {
	var extents []bootpack.Extent
	for b := 0; b+8 <= len(img.raw)/chunk.BlockSize; b += 16 {
		extents = append(extents, bootpack.Extent{Start: uint32(b), Blocks: 8})
	}
	slices.Reverse(extents)
	return img.pack(t, extents, cut)
}

// record records what a device and its piece store report.
type record struct {
	keep            int64 // bytes of pieces; 0: the default
	complete, whole atomic.Int32
	store           *piecestore.Store

	mu     sync.Mutex
	served map[string]int
	unread int64
	late   int64
	lost   []error
}

func (r *record) options(img *testImage, src chunk.Source, m bootpack.Map) Options {
	r.served = map[string]int{}
	r.store = piecestore.New(piecestore.Options{Map: m, Keep: r.keep, Unread: r.count,
		Lost:     func(_ chunk.ID, err error) { r.mu.Lock(); r.lost = append(r.lost, err); r.mu.Unlock() },
		Complete: func() { r.complete.Add(1) }, Whole: func() { r.whole.Add(1) }})
	p, err := NewPack(m, int64(len(img.raw)))
	if err != nil {
		panic(err)
	}
	p.Store, p.Reads, p.Stream, p.Source = r.store, r.store, r.store, src
	return Options{Index: img.index, Ahead: -1, Pack: p,
		Served: func(s string, n int) { r.mu.Lock(); r.served[s] += n; r.mu.Unlock() }}
}

// idle returns the options of a device that streams nothing.
func (r *record) idle(img *testImage, src chunk.Source, m bootpack.Map) Options {
	o := r.options(img, src, m)
	o.Pack.Stream = nil
	return o
}

// count counts the unread bytes.
func (r *record) count(n int64, late bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if late {
		r.late += n
		return
	}
	r.unread += n
}

// readAll reads everything in requests of 128 KiB, and fails the test at wrong bytes.
func readAll(t *testing.T, d *Device, img *testImage) {
	t.Helper()
	for off := 0; off < len(img.raw); off += 128 << 10 {
		p := make([]byte, min(128<<10, len(img.raw)-off))
		if err := d.ReadAt(t.Context(), p, int64(off)); err != nil || !bytes.Equal(p, img.raw[off:off+len(p)]) {
			t.Errorf("%d bytes at %d differ, or %v", len(p), off, err)
		}
	}
}

// The pack is streamed in its order, each piece once. Read and unread bytes are counted.
func TestPackIsStreamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img := newImage(t, 100, 50)
		m := img.everyOther(t, 20)
		src, r := &source{img: img}, &record{}
		var order []int
		src.before = func(_ context.Context, id chunk.ID) error {
			i := slices.IndexFunc(m.Pieces, func(e chunk.Entry) bool { return e.ID == id })
			r.mu.Lock()
			order = append(order, i)
			r.mu.Unlock()
			time.Sleep(time.Millisecond) // all streams send a request before any is answered, in any schedule
			return nil
		}
		d, err := Open(t.Context(), src, r.options(img, src, m))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		time.Sleep(time.Duration(len(m.Pieces)) * time.Millisecond)
		synctest.Wait()
		order = slices.DeleteFunc(order, func(i int) bool { return i < 0 }) // the index root
		if len(order) != len(m.Pieces) {
			t.Fatalf("%d fetches for %d pieces", len(order), len(m.Pieces))
		}
		for n, i := range order {
			if i < n-streams || i > n+streams {
				t.Errorf("piece %d came as number %d", i, n)
			}
		}
		if r.unread != m.RawSize() {
			t.Errorf("%d bytes not read, want all %d of the pack", r.unread, m.RawSize())
		}
		first := m.Extents[0]
		p := make([]byte, chunk.BlockSize)
		for range 2 {
			if err := d.ReadAt(t.Context(), p, int64(first.Start)*chunk.BlockSize); err != nil {
				t.Fatal(err)
			}
		}
		if r.unread != m.RawSize()-chunk.BlockSize || r.served["pack"] != 2*chunk.BlockSize {
			t.Errorf("after two reads of a block: %d bytes not read, %d from the pack", r.unread, r.served["pack"])
		}
		readAll(t, d, img)
		if r.unread != 0 || len(order) == 0 || src.total() == 0 {
			t.Errorf("%d bytes of the pack not read after everything was", r.unread)
		}
		for _, e := range m.Pieces {
			if n := src.gets[e.ID]; n != 1 {
				t.Errorf("piece %s was fetched %d times", e.ID, n)
			}
		}
	})
}

// The pack arrives before the index root. Complete is called once when all pieces of a boot are there.
func TestPackComesBeforeTheRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img := newImage(t, 100, 50)
		m := img.everyOther(t, 20)
		m.Booted = len(m.Pieces) / 2
		src, r := &source{img: img}, &record{}
		o := r.options(img, src, m)
		o.Size = int64(len(img.raw))
		rooted := openBeforeTheRoot(t, src, o)
		first := int64(0)
		for _, e := range m.Pieces[:m.Booted] {
			first += int64(e.RawSize)
		}
		if r.complete.Load() != 1 || r.unread != first || r.late != 0 {
			t.Errorf(
				"before the root: complete %d times, %d bytes of the pack until booted came, want all %d, and %d of "+
					"the rest",
				r.complete.Load(),
				r.unread,
				first,
				r.late,
			)
		}
		d := rooted()
		defer d.Close()
		readAll(t, d, img)
		if r.complete.Load() != 1 || r.whole.Load() != 1 {
			t.Errorf("complete %d times, whole %d times", r.complete.Load(), r.whole.Load())
		}
	})
}

// With an idle pack, only pieces that reads need are fetched.
func TestIdlePack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img := randomImage(t, 160)
		m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 160}}, 8)
		src, r := &source{img: img}, &record{}
		d, err := Open(t.Context(), src, r.idle(img, src, m))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := d.ReadAt(t.Context(), make([]byte, 4096), 70*chunk.BlockSize); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := src.total(); n != 2 || src.gets[m.Pieces[8].ID] != 1 {
			t.Errorf("%d objects fetched, want the index root and piece 8", n)
		}
	})
}

// Lost pieces are reported, and their blocks come from chunks. When too many are lost, the whole pack is.
func TestLostPieces(t *testing.T) {
	img := newImage(t, 200, 50)
	m := img.everyOther(t, 8)
	all := make([]int, len(m.Pieces))
	for i := range all {
		all[i] = i
	}
	for name, gone := range map[string][]int{"some": {1, 2, 5}, "all": all} {
		src, r := &source{img: img}, &record{}
		d := open(t, src, r.options(img, without(src, m, gone), m))
		readAll(t, d, img)
		d.Close()
		if want := min(len(gone), 8); len(r.lost) < want || len(r.lost) > want+streams+1 {
			t.Errorf("%s: %d pieces reported, want about %d: %v", name, len(r.lost), want, r.lost)
		}
		if (r.served["pack"] == 0) != (len(gone) == len(all)) {
			t.Errorf("%s: %d bytes from the pack", name, r.served["pack"])
		}
	}
}

// A source that hangs at pieces delays reads for a limited time.
func TestSlowPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img := randomImage(t, 160)
		m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 160}}, 8)
		src, r := &source{img: img}, &record{}
		hang := chunk.SourceFunc(func(ctx context.Context, _ chunk.Request) (chunk.Verified, error) {
			<-ctx.Done()
			return chunk.Verified{}, ctx.Err()
		})
		d, err := Open(t.Context(), src, r.options(img, hang, m))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		begun, p := time.Now(), make([]byte, chunk.BlockSize)
		if err := d.ReadAt(t.Context(), p, 50*chunk.BlockSize); err != nil ||
			!bytes.Equal(p, img.raw[50*chunk.BlockSize:][:len(p)]) {
			t.Errorf("wrong bytes or %v", err)
		}
		if took := time.Since(begun); took != pieceMost || len(r.lost) != 0 {
			t.Errorf("the read took %s, want %s; lost %v", took, pieceMost, r.lost)
		}
		d.pack.Patience = func() time.Duration { return 2 * pieceMost } // with an announce delay
		begun = time.Now()
		if err := d.ReadAt(t.Context(), p, 60*chunk.BlockSize); err != nil || time.Since(begun) != 2*pieceMost {
			t.Errorf("where word is late the read took %s: %v", time.Since(begun), err)
		}
	})
}

// A piece that matches its digest and does not unpack is lost like a missing one.
func TestPieceOfJunk(t *testing.T) {
	img := newImage(t, 50, 50)
	m := img.everyOther(t, 8)
	m.Pieces[0].Codec, m.Pieces[0].ID, m.Pieces[0].StoredSize = chunk.Zstd, img.put([]byte("junk")), 4
	src, r := &source{img: img}, &record{}
	d := open(t, src, r.options(img, src, m))
	readAll(t, d, img)
	if len(r.lost) != 1 || !errors.Is(r.lost[0], ErrBroken) {
		t.Errorf("reported %v, want one piece that is broken", r.lost)
	}
}

// A pack that does not fit the root is refused.
func TestPackOfAnotherRoot(t *testing.T) {
	img := newImage(t, 50, 50)
	m := img.everyOther(t, 8)
	m.Extents[0].Start = uint32(len(img.raw)/chunk.BlockSize) - 4
	if _, err := NewPack(m, int64(len(img.raw))); err == nil {
		t.Error("a pack with blocks beyond the root is taken")
	}
}

// randomImage has random bytes, which do not compress, so that sizes are known: pieces of 8 blocks, room for four.
func randomImage(t testing.TB, blocks int) *testImage {
	t.Helper()
	enc, err := chunk.NewEncoder(1)
	if err != nil {
		t.Fatal(err)
	}
	img := &testImage{objects: map[chunk.ID][]byte{}, raw: make([]byte, blocks*chunk.BlockSize)}
	rand.NewChaCha8([32]byte{3}).Read(img.raw)
	var entries []chunk.Entry
	for off := 0; off < len(img.raw); off += 16 * chunk.BlockSize {
		raw := img.raw[off:][:16*chunk.BlockSize]
		entries = append(
			entries,
			chunk.Entry{RawSize: len(raw), StoredSize: len(raw), Codec: chunk.Stored, ID: img.put(raw)},
		)
	}
	img.addPage(t, enc, entries)
	img.seal(t)
	return img
}

// A stream starts no fetch while a read waits for its own, up to yieldMost.
func TestStreamsGiveWayToReads(t *testing.T) {
	for _, c := range []struct{ read, second time.Duration }{
		{500 * time.Millisecond, time.Second},
		{1100 * time.Millisecond, 1100 * time.Millisecond},
		{time.Hour, 1200 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			img := randomImage(t, 160)
			m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 96}}, 8)
			src, r := &source{img: img}, &record{}
			begun := time.Now()
			var starts []time.Duration
			pieces := chunk.SourceFunc(func(ctx context.Context, q chunk.Request) (chunk.Verified, error) {
				r.mu.Lock()
				starts = append(starts, time.Since(begun))
				r.mu.Unlock()
				time.Sleep(time.Second)
				return src.Get(ctx, q)
			})
			d, err := Open(t.Context(), src, r.options(img, pieces, m))
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			// fetches the index page
			if err := d.ReadAt(t.Context(), make([]byte, 4096), 100*chunk.BlockSize); err != nil {
				t.Fatal(err)
			}
			src.before = func(ctx context.Context, id chunk.ID) error {
				if slices.ContainsFunc(m.Pieces, func(e chunk.Entry) bool { return e.ID == id }) {
					return nil
				}
				select {
				case <-time.After(c.read):
				case <-ctx.Done():
				}
				return ctx.Err()
			}
			done := make(chan error, 1)
			go func() { done <- d.ReadAt(t.Context(), make([]byte, 4096), 120*chunk.BlockSize) }()
			time.Sleep(1900 * time.Millisecond)
			d.Close()
			<-done
			if len(starts) != 2*streams || starts[0] != 0 || starts[streams] != c.second {
				t.Errorf(
					"a read of %s: pieces were asked for at %v, want %d at 0 and at %v",
					c.read,
					starts,
					streams,
					c.second,
				)
			}
		})
	}
}
