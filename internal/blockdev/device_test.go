package blockdev

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// Any read, in any order and with any amount of memory, returns the original bytes.
func TestReadAtAnyRange(t *testing.T) {
	img := newImage(t, 300, 40)
	rapid.Check(t, func(rt *rapid.T) {
		d, err := Open(t.Context(), &source{img: img}, Options{
			Index: img.index, Size: int64(len(img.raw)),
			Cache: rapid.SampledFrom([]int64{1, 100_000, 1 << 20}).Draw(rt, "cache"),
			Pages: rapid.SampledFrom([]int64{1, 5000, 1 << 20}).Draw(rt, "pages"),
			Ahead: rapid.SampledFrom([]int{-1, 1, 8}).Draw(rt, "ahead"),
		})
		if err != nil {
			rt.Fatal(err)
		}
		defer d.Close()
		for range rapid.IntRange(1, 20).Draw(rt, "reads") {
			off := rapid.IntRange(0, len(img.raw)-1).Draw(rt, "off")
			p := make([]byte, rapid.IntRange(0, min(300_000, len(img.raw)-off)).Draw(rt, "len"))
			if err := d.ReadAt(t.Context(), p, int64(off)); err != nil {
				rt.Fatal(err)
			}
			if !bytes.Equal(p, img.raw[off:off+len(p)]) {
				rt.Fatalf("%d bytes at %d differ", len(p), off)
			}
		}
	})
}

func TestReadOutside(t *testing.T) {
	img := newImage(t, 10, 4)
	d := open(t, &source{img: img}, Options{Index: img.index})
	for _, off := range []int64{-1, d.Size(), d.Size() - 1, 1<<63 - 1} {
		if err := d.ReadAt(t.Context(), make([]byte, 2), off); err == nil {
			t.Errorf("read of 2 bytes at %d of %d succeeds", off, d.Size())
		}
	}
}

// The memory of raw bytes is bounded.
func TestRawBytesAreBounded(t *testing.T) {
	img := randomImage(t, 160)
	src, r := &source{img: img}, &record{}
	o := r.options(img, src, img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 160}}, 16)) // ten pieces of 64 KiB
	o.Cache = 4 * 64 << 10
	d, err := Open(t.Context(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	kept := func() int64 {
		for block := range int64(10) { // a block of each piece, so that none is read completely
			if err := d.ReadAt(t.Context(), make([]byte, chunk.BlockSize), block*16*chunk.BlockSize); err != nil {
				t.Fatal(err)
			}
		}
		d.raws.mu.Lock()
		defer d.raws.mu.Unlock()
		return d.raws.kept.cost
	}
	if got := kept(); got <= 2*64<<10 || got > o.Cache {
		t.Errorf("%d bytes are kept, want up to %d", got, o.Cache)
	}
}

// Many readers of one chunk cost one fetch, and so do later ones while the chunk is kept.
func TestOneFetchForMany(t *testing.T) {
	img := newImage(t, 1, 1)
	wait := make(chan struct{})
	var waiting atomic.Int32
	src := &source{img: img}
	d := open(t, src, Options{Index: img.index})
	src.before = func(ctx context.Context, id chunk.ID) error { waiting.Add(1); <-wait; return nil }
	var readers sync.WaitGroup
	for i := range 16 {
		readers.Go(func() {
			p := make([]byte, 4096)
			if err := d.ReadAt(t.Context(), p, int64(i)*4096); err != nil || !bytes.Equal(p, img.raw[i*4096:][:4096]) {
				t.Errorf("reader %d: wrong bytes or %v", i, err)
			}
		})
	}
	close(wait)
	readers.Wait()
	if n := src.total(); n != 3 {
		t.Errorf("%d objects fetched, want root, page and one chunk", n)
	}
}

// An object with another id than the requested one is refused.
func TestSourceReturnsAnotherObject(t *testing.T) {
	img := newImage(t, 10, 4)
	other, err := chunk.Check(chunk.Sum([]byte("other")), []byte("other"))
	if err != nil {
		t.Fatal(err)
	}
	lie := chunk.SourceFunc(func(context.Context, chunk.Request) (chunk.Verified, error) { return other, nil })
	if _, err := Open(t.Context(), lie, Options{Index: img.index}); err == nil {
		t.Error("Open takes another object for the index")
	}
	honest := &source{img: img}
	lies := atomic.Bool{}
	d := open(t, chunk.SourceFunc(func(ctx context.Context, q chunk.Request) (chunk.Verified, error) {
		if lies.Load() {
			return other, nil
		}
		return honest.Get(ctx, q)
	}), Options{Index: img.index})
	lies.Store(true)
	if err := d.ReadAt(t.Context(), make([]byte, 4096), 0); err == nil {
		t.Error("ReadAt takes another object for a page")
	}
	lies.Store(false)
	if err := d.ReadAt(t.Context(), make([]byte, 4096), 0); err != nil {
		t.Errorf("ReadAt after the lie: %v", err)
	}
}

// Objects that match their digests and are still invalid are ErrBroken: no retry would help.
func TestBrokenImages(t *testing.T) {
	enc, err := chunk.NewEncoder(1)
	if err != nil {
		t.Fatal(err)
	}
	junk := []byte(strings.Repeat("junk", 100))
	img := &testImage{objects: map[chunk.ID][]byte{}, raw: make([]byte, 4096)}
	id := img.put(junk)
	img.addPage(t, enc, []chunk.Entry{{RawSize: 4096, StoredSize: len(junk), Codec: chunk.Zstd, ID: id}})
	img.seal(t)
	d := open(t, &source{img: img}, Options{Index: img.index})
	if err := d.ReadAt(t.Context(), make([]byte, 4096), 0); !errors.Is(err, ErrBroken) {
		t.Errorf("chunk of junk: %v, want ErrBroken", err)
	}
	img.pages[0].ID, img.pages[0].StoredSize, img.pages[0].Codec = id, len(junk), chunk.Zstd
	img.pages[0].Entries = 100
	img.seal(t)
	d = open(t, &source{img: img}, Options{Index: img.index})
	if err := d.ReadAt(t.Context(), make([]byte, 4096), 0); !errors.Is(err, ErrBroken) {
		t.Errorf("page of junk: %v, want ErrBroken", err)
	}
	if _, err := Open(t.Context(), &source{img: img}, Options{Index: id}); !errors.Is(err, ErrBroken) {
		t.Errorf("root of junk: %v, want ErrBroken", err)
	}
	if _, err := Open(t.Context(), &source{img: img}, Options{Index: img.index, Size: 8192}); !errors.Is(
		err,
		ErrBroken,
	) {
		t.Errorf("root of another size: %v, want ErrBroken", err)
	}
}

// A reader may give up. The fetch continues for the next reader.
func TestReaderGivesUp(t *testing.T) {
	img := newImage(t, 1, 1)
	src := &source{img: img}
	d := open(t, src, Options{Index: img.index})
	wait, started := make(chan struct{}), make(chan struct{}, 8)
	src.before = func(ctx context.Context, id chunk.ID) error {
		started <- struct{}{}
		select {
		case <-wait:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.ReadAt(ctx, make([]byte, 4096), 0) }()
	<-started
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled read: %v", err)
	}
	close(wait)
	if err := d.ReadAt(t.Context(), make([]byte, 4096), 0); err != nil {
		t.Errorf("next read: %v", err)
	}
	if n := src.total(); n != 3 {
		t.Errorf("%d objects fetched, want root, page and one chunk", n)
	}
}

func TestServedWithoutFetch(t *testing.T) {
	img := newImage(t, 5, 5)
	var mu sync.Mutex
	got := map[string]int{}
	d := open(t, &source{img: img}, Options{Index: img.index, Ahead: -1, Served: func(source string, n int) {
		mu.Lock()
		defer mu.Unlock()
		got[source] += n
	}})
	p := make([]byte, 4096)
	for _, off := range []int64{0, 4096, 8192, 65536} { // one fetch, two from the cache, one zero block
		if err := d.ReadAt(t.Context(), p, off); err != nil {
			t.Fatal(err)
		}
	}
	if got["cache"] != 8192 || got["zero"] != 4096 {
		t.Errorf("served without a fetch: %v, want 8192 from the cache and 4096 zeros", got)
	}
}
