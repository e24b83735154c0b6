package blockdev

import (
	"testing"

	"pando/internal/chunk"
)

func TestReadAheadNote(t *testing.T) {
	const k, window = 1 << 10, 100 << 10
	type read struct{ off, n, from, to int64 }
	for name, reads := range map[string][]read{
		"scattered": {{0, 4 * k, 0, 0}, {40 * k, 4 * k, 0, 0}, {8 * k, 4 * k, 0, 0}, {12 * k, 4 * k, 0, 0}},
		"third in a row": {{0, 4 * k, 0, 0}, {4 * k, 4 * k, 0, 0}, {8 * k, 4 * k, 12 * k, 112 * k},
			{12 * k, 4 * k, 112 * k, 116 * k}},
		"two streams": {{0, 4 * k, 0, 0}, {900 * k, 4 * k, 0, 0}, {4 * k, 4 * k, 0, 0}, {904 * k, 4 * k, 0, 0},
			{8 * k, 4 * k, 12 * k, 112 * k}, {908 * k, 4 * k, 912 * k, 1012 * k}},
		"larger than the window": {{0, 400 * k, 0, 0}, {400 * k, 400 * k, 0, 0}, {800 * k, 400 * k, 1200 * k, 1300 * k},
			{1200 * k, 400 * k, 1600 * k, 1700 * k}},
	} {
		var r readAhead
		for i, x := range reads {
			if from, to := r.note(x.off, x.n, window); from != x.from || to != x.to {
				t.Errorf("%s: read %d fetches %d to %d ahead, want %d to %d", name, i, from, to, x.from, x.to)
			}
		}
	}
}

// A sequential read of everything fetches everything once. Read-ahead fetches nothing that is not used.
func TestReadAheadFetchesNothingTwice(t *testing.T) {
	img := newImage(t, 200, 50)
	src := &source{img: img}
	d := open(t, src, Options{Index: img.index, Size: int64(len(img.raw))})
	p := make([]byte, 4096)
	for off := int64(0); off < d.Size(); off += 4096 {
		if err := d.ReadAt(t.Context(), p, off); err != nil {
			t.Fatal(err)
		}
	}
	d.Close()
	for id, n := range src.gets {
		if n > 1 {
			t.Errorf("object %s was fetched %d times", id, n)
		}
	}
	if len(src.gets) != len(img.objects) {
		t.Errorf("%d objects fetched of %d", len(src.gets), len(img.objects))
	}
}

func TestLRUKeepsTheLastUsed(t *testing.T) {
	l := lru[int, chunk.ID]{limit: 3}
	for i := range 3 {
		l.put(i, chunk.ID{}, 1)
	}
	l.get(0)
	l.put(3, chunk.ID{}, 1)
	l.put(4, chunk.ID{}, 4) // more than the limit
	for k, want := range []bool{true, false, true, true, false} {
		if l.has(k) != want {
			t.Errorf("%d kept: %v, want %v", k, !want, want)
		}
	}
	l.put(5, chunk.ID{}, 3)
	if len(l.items) != 1 || l.order.Len() != 1 || l.cost != 3 {
		t.Errorf("%d items, %d in order, cost %d; want 1, 1, 3", len(l.items), l.order.Len(), l.cost)
	}
}
