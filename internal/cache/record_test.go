package cache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestRecords(t *testing.T) {
	m := formatted(t, MinSize)
	d := openMemory(t, m, Options{})
	if b, err := d.Record("manifest"); b != nil || err != nil {
		t.Errorf("no record: %q, %v", b, err)
	}
	long := make([]byte, MaxRecord)
	long[MaxRecord-1] = 1
	for n := range recordSlots {
		for _, data := range []string{"", fmt.Sprint(n), string(long)} {
			name := fmt.Sprintf("record-%d", n)
			if err := d.SetRecord(name, []byte(data)); err != nil {
				t.Fatal(err)
			}
			d = openMemory(t, m, Options{})
			if b, err := d.Record(name); err != nil || b == nil || string(b) != data {
				t.Fatalf("%s: %d bytes, %v; want %d", name, len(b), err, len(data))
			}
		}
	}
	if err := d.SetRecord("one more", nil); !errors.Is(err, errRecordsFull) {
		t.Errorf("one too many: %v", err)
	}
	if d.SetRecord("", nil) == nil || d.SetRecord("x", make([]byte, MaxRecord+1)) == nil {
		t.Error("a record without name, or one that is too long, is taken")
	}
}

// counted is an area that counts the bytes read from it.
type counted struct {
	*memory
	read int
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	c.read += len(p)
	return c.memory.ReadAt(p, off)
}

// Opening records reads no tables, and of other slots the headers alone, because a boot waits for it. A Disk may be
// open at the same time, and each sees what the other has written.
func TestRecordsByThemselves(t *testing.T) {
	c := &counted{memory: formatted(t, 4*MinSize)}
	d := openMemory(t, c.memory, Options{})
	for name, size := range map[string]int{"other": MaxRecord, "one more": MaxRecord, "boot": 3000} {
		if err := d.SetRecord(name, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := OpenRecords(c, c.size(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := r.Record("boot"); err != nil || len(b) != 3000 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if err := r.SetRecord("boot", []byte("newer")); err != nil {
		t.Fatal(err)
	}
	if most := 2*superSize + 2*2*recordSlots*recordHeader + 4*(recordHeader+3000); c.read > most {
		t.Errorf("%d bytes were read, want at most %d", c.read, most)
	}
	mustPut := object(1)
	if err := d.Put(mustPut); err != nil {
		t.Fatal(err)
	}
	mustHave(t, d, mustPut, 0)
	if b, err := d.Record("boot"); err != nil || string(b) != "newer" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := OpenRecords(newMemory(MinSize), MinSize, Options{}); !errors.Is(err, ErrNotCache) {
		t.Errorf("of no cache: %v", err)
	}
	if r, err := OpenRecords(c, c.size(), Options{ReadOnly: true}); err != nil || r.SetRecord("boot", nil) == nil {
		t.Errorf("a read-only disk was written, or %v", err)
	}
}

// After a power cut, a record that was being replaced is the old one or the new one.
func TestRecordsAndPowerCuts(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 3))
		m := formatted(t, MinSize)
		d := openMemory(t, m, Options{})
		for n := range 1 + r.IntN(3) {
			if err := d.SetRecord("k", fmt.Appendf(nil, "%d %d", n, seed)); err != nil {
				t.Fatal(err)
			}
		}
		before, err := d.Record("k")
		if err != nil {
			t.Fatal(err)
		}
		m.fail("sync", errors.New("power"))
		next := make([]byte, 5000)
		next[4999] = 1
		if d.SetRecord("k", next) == nil {
			t.Fatal("a record is said to be written without power")
		}
		d = openMemory(t, m.cut(r, seed%2 == 0), Options{})
		b, err := d.Record("k")
		if err != nil || string(b) != string(before) && string(b) != string(next) {
			t.Fatalf("seed %d: %q, %v", seed, b, err)
		}
	}
}
