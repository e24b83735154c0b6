package cache

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/chunk"
)

const testSize = 80 << 20 // 17 segments

func mustHave(t *testing.T, d *Disk, v chunk.Verified, size int64) {
	t.Helper()
	got, ok := d.Get(v.ID(), size)
	if !ok || !bytes.Equal(got.Stored(), v.Stored()) {
		t.Fatalf("object of %d bytes is not there", len(v.Stored()))
	}
}

func TestObjectsStayAcrossBoots(t *testing.T) {
	m := formatted(t, testSize)
	for boot := range 5 {
		d := openMemory(t, m, Options{})
		for n := range 50 * boot {
			mustHave(t, d, object(n), 0)
		}
		for n := range 50 {
			if err := d.Put(object(50*boot + n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		v := object(50*boot + 1)
		mustHave(t, d, v, int64(len(v.Stored())))
		if _, ok := d.Get(v.ID(), int64(len(v.Stored()))+1); ok {
			t.Error("an object of another size is there")
		}
		if _, ok := d.Get(chunk.Sum([]byte("other")), 0); ok {
			t.Error("an object that was never put is there")
		}
		if s := d.Stats(); s.Objects != 50*boot+50 || s.Bad != 0 {
			t.Errorf("boot %d: %+v", boot, s)
		}
	}
	d := openMemory(t, m, Options{})
	if d.newest != 1 && d.open.next == 0 {
		t.Errorf("five small boots took %d segments", d.newest)
	}
}

// A full cache drops the oldest objects, and keeps those that boots still read.
func TestFull(t *testing.T) {
	m := formatted(t, testSize)
	d := openMemory(t, m, Options{})
	hot := object(10)
	put := 0
	for n := 10; d.newest < 60; n++ {
		if _, ok := d.Get(hot.ID(), 0); n > 10 && !ok {
			t.Fatalf("object %d: what is read all the time went", n)
		}
		for _, v := range []chunk.Verified{object(n), hot} {
			if d.Wants(v.ID()) {
				put++
				if err := d.Put(v); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	mustHave(t, d, hot, 0)
	if _, ok := d.Get(object(11).ID(), 0); ok {
		t.Error("what was put first is still there")
	}
	if d.Wants(hot.ID()) {
		t.Error("what is there is wanted")
	}
	if s := d.Stats(); s.Bad != 0 || s.Objects >= put {
		t.Errorf("%d objects were put: %+v", put, s)
	}
}

// With a smaller limit, less of the area is written, and all of it is still read.
func TestLimit(t *testing.T) {
	m := formatted(t, 160<<20)
	d := openMemory(t, m, Options{})
	n := 0
	for ; d.open.segment < 30; n++ {
		if err := d.Put(object(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	d = openMemory(t, m, Options{Size: MinSize})
	mustHave(t, d, object(n-1), 0)
	for i := range 2000 {
		if err := d.Put(object(n + i)); err != nil {
			t.Fatal(err)
		}
		if d.open.segment >= MinSize/segment {
			t.Fatalf("segment %d is written", d.open.segment)
		}
	}
	mustHave(t, d, object(n-1), 0)
}

// After a power cut at any moment, the cache opens, its objects are right, and synced objects are there.
func TestPowerCuts(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := formatted(t, MinSize)
		synced := map[int]bool{}
		n := 0
		for range 6 {
			torn := seed%3 == 0 // worse than real disks
			d := openMemory(t, m, Options{})
			for n := range synced {
				if _, ok := d.Get(object(n).ID(), 0); !ok && !torn {
					t.Fatalf("seed %d: object %d was synced and is gone", seed, n)
				}
			}
			if s := d.Stats(); s.Bad != 0 && !torn {
				t.Fatalf("seed %d: %d objects are not what they should be", seed, s.Bad)
			}
			puts := r.IntN(200)
			var since []int
			for range puts {
				if err := d.Put(object(n)); err != nil {
					t.Fatal(err)
				}
				since = append(since, n)
				n++
				if r.IntN(100) == 0 {
					if err := d.Sync(); err != nil {
						t.Fatal(err)
					}
					for _, n := range since {
						synced[n] = true
					}
					since = nil
				}
			}
			m = m.cut(r, torn)
		}
		d := openMemory(t, m, Options{})
		for i := range n {
			if v, ok := d.Get(object(i).ID(), 0); ok && !bytes.Equal(v.Stored(), object(i).Stored()) {
				t.Fatalf("seed %d: object %d is another", seed, i)
			}
		}
	}
}

// Damage costs only the damaged objects.
func TestRandomCorruption(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 2))
		m := formatted(t, MinSize)
		d := openMemory(t, m, Options{})
		for n := range 300 {
			if err := d.Put(object(n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(d.SetRecord("manifest", []byte("one")), d.Sync()); err != nil {
			t.Fatal(err)
		}
		used := d.layout.segmentAt(d.open.segment + 1)
		for range 1 + r.IntN(2000) {
			m.now[r.Int64N(used)] ^= byte(1 + r.IntN(255))
		}
		d, err := Open(m, m.size(), Options{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err) // only damage to both superblocks makes it unusable
		}
		found := 0
		for n := range 300 {
			if v, ok := d.Get(object(n).ID(), 0); ok {
				found++
				if !bytes.Equal(v.Stored(), object(n).Stored()) {
					t.Fatalf("seed %d: object %d is another", seed, n)
				}
			}
		}
		for n := range 300 {
			if err := d.Put(object(n)); err != nil {
				t.Fatal(err)
			}
			mustHave(t, d, object(n), 0)
		}
		if b, err := d.Record("manifest"); err != nil || b != nil && string(b) != "one" {
			t.Errorf("seed %d: record %q, %v", seed, b, err)
		}
		if seed == 0 && found == 300 {
			t.Error("no object was damaged: this test tests nothing")
		}
	}
}

// A disk that becomes read-only is still read. A disk that is gone is tried a few times only.
func TestDiskThatFails(t *testing.T) {
	m := formatted(t, testSize)
	var told []error
	d := openMemory(t, m, Options{Failed: func(err error) { told = append(told, err) }})
	for n := range 20 {
		if err := d.Put(object(n)); err != nil {
			t.Fatal(err)
		}
	}
	gone := errors.New("no such device")
	m.fail("write", gone)
	for n := range 5 {
		if err := d.Put(object(100 + n)); !errors.Is(err, gone) {
			t.Errorf("put on a disk that is read-only: %v", err)
		}
	}
	mustHave(t, d, object(3), 0)
	if d.Wants(object(100).ID()) || d.Err() == nil || len(told) != 1 {
		t.Errorf("after a failed write: %v told", told)
	}
	m.fail("read", gone)
	for n := range 20 {
		if _, ok := d.Get(object(n).ID(), 0); ok {
			t.Error("a disk that is gone gives an object")
		}
	}
	if len(told) != 2 || d.Has(object(3).ID()) {
		t.Errorf("after failed reads: %v told", told)
	}
	if _, err := Open(m, m.size(), Options{}); !errors.Is(err, gone) {
		t.Errorf("open a disk that is gone: %v", err)
	}
}

func TestOpenWhatIsNone(t *testing.T) {
	m := newMemory(testSize)
	if _, err := Open(m, m.size(), Options{}); !errors.Is(err, ErrNotCache) {
		t.Errorf("an empty disk: %v", err)
	}
	if err := Format(m, 1<<20); err == nil || !strings.Contains(err.Error(), "too small") {
		t.Errorf("a small disk: %v", err)
	}
	if _, err := Open(m, 1<<20, Options{}); !errors.Is(err, ErrNotCache) {
		t.Errorf("a small disk: %v", err)
	}
	m = formatted(t, testSize)
	if _, err := Open(m, m.size()-block, Options{}); !errors.Is(err, ErrNotCache) {
		t.Errorf("a cache that was cut off: %v", err)
	}
	if !Probe(m) {
		t.Error("a cache is not known by its beginning")
	}
	clear(m.now[:block])
	if Probe(m) {
		t.Error("zeros are taken for a cache")
	}
	d := openMemory(t, m, Options{})
	if err := d.Put(object(1)); err != nil {
		t.Error(err)
	}
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
	if err := Format(m, m.size()); err != nil {
		t.Fatal(err)
	}
	if d := openMemory(t, m, Options{}); d.Stats().Objects != 0 {
		t.Error("an object survives formatting")
	}
}

func TestInAFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "area"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(f.Truncate(testSize), Format(f, testSize)); err != nil {
		t.Fatal(err)
	}
	for boot := range 2 {
		d, err := Open(f, testSize, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if boot == 1 {
			mustHave(t, d, object(7), 0)
		}
		if err := errors.Join(d.Put(object(7)), d.Sync()); err != nil {
			t.Fatal(err)
		}
	}
}
