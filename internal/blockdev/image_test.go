package blockdev

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"pando/internal/chunk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testImage is a file system's raw bytes and its objects.
type testImage struct {
	raw     []byte
	index   chunk.ID
	objects map[chunk.ID][]byte
	pages   []chunk.PageRef
}

// chunkSizes in blocks; zero runs and repeated contents come in between.
var chunkSizes = []int{16, 1, 4, 16, 2, 16, 16, 3}

// newImage makes an image of about n chunks, with perPage entries on an index page.
func newImage(t testing.TB, n, perPage int) *testImage {
	t.Helper()
	enc, err := chunk.NewEncoder(1)
	if err != nil {
		t.Fatal(err)
	}
	img := &testImage{objects: map[chunk.ID][]byte{}}
	random := rand.NewChaCha8([32]byte{7})
	var entries []chunk.Entry
	for i := range n {
		raw := make([]byte, chunkSizes[i%len(chunkSizes)]*chunk.BlockSize)
		switch i % 5 {
		case 0: // does not compress
			random.Read(raw)
		case 1: // zeros
		case 2: // equal contents
			for j := range raw {
				raw[j] = byte(j)
			}
		default:
			random.Read(raw[:len(raw)/3])
		}
		stored, codec := enc.Encode(raw)
		e := chunk.Entry{RawSize: len(raw), StoredSize: len(stored), Codec: codec}
		if codec != chunk.Zero {
			e.ID = img.put(stored)
		}
		entries = append(entries, e)
		img.raw = append(img.raw, raw...)
	}
	for len(entries) > 0 {
		m := min(perPage, len(entries))
		img.addPage(t, enc, entries[:m])
		entries = entries[m:]
	}
	img.seal(t)
	return img
}

func (img *testImage) put(stored []byte) chunk.ID {
	id := chunk.Sum(stored)
	img.objects[id] = append([]byte(nil), stored...)
	return id
}

func (img *testImage) addPage(t testing.TB, enc *chunk.Encoder, entries []chunk.Entry) {
	t.Helper()
	p, err := chunk.NewPage(entries)
	if err != nil {
		t.Fatal(err)
	}
	stored, codec := enc.Encode(p.Encode())
	img.pages = append(img.pages, chunk.PageRef{RawSize: p.RawSize(), Entries: len(entries),
		StoredSize: len(stored), Codec: codec, ID: img.put(stored)})
}

// seal writes the index root over the pages so far.
func (img *testImage) seal(t testing.TB) {
	t.Helper()
	root, err := chunk.NewRoot(img.pages, 16*chunk.BlockSize)
	if err != nil {
		t.Fatal(err)
	}
	img.index = img.put(root.Encode())
}

// source returns the objects of an image and counts the requests.
type source struct {
	img    *testImage
	before func(ctx context.Context, id chunk.ID) error

	mu   sync.Mutex
	gets map[chunk.ID]int
}

func (s *source) Get(ctx context.Context, r chunk.Request) (chunk.Verified, error) {
	id, size := r.ID, r.Size
	s.mu.Lock()
	if s.gets == nil {
		s.gets = map[chunk.ID]int{}
	}
	s.gets[id]++
	s.mu.Unlock()
	if s.before != nil {
		if err := s.before(ctx, id); err != nil {
			return chunk.Verified{}, err
		}
	}
	stored, ok := s.img.objects[id]
	if !ok || size != 0 && size != int64(len(stored)) {
		return chunk.Verified{}, errors.New("no such object")
	}
	return chunk.Check(id, stored)
}

func (s *source) total() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.gets {
		n += c
	}
	return n
}

func open(t testing.TB, src chunk.Source, o Options) *Device {
	t.Helper()
	d, err := Open(t.Context(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}
