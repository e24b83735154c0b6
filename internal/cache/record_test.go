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

// A record that is being replaced is the old one or the new one.
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
