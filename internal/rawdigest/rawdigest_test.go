package rawdigest

import (
	"os"
	"path/filepath"
	"testing"

	"pando/internal/chunk"
	"pando/internal/store"
)

func TestMemory(t *testing.T) {
	d, err := store.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := d.NewWriter()
	defer w.Close()
	entry := func(text string) ([32]byte, chunk.Entry) {
		id, _, err := w.Put(t.Context(), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return Sum(
				[]byte("raw " + text),
			), chunk.Entry{
				RawSize:    4096,
				StoredSize: len(text),
				Codec:      chunk.Zstd,
				ID:         id,
			}
	}
	open := func() *Cache {
		m, err := Open(d)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	save := func(m *Cache) {
		if err := m.Save(); err != nil {
			t.Fatal(err)
		}
	}
	m := open()
	a, ea := entry("a")
	b, eb := entry("bb")
	m.Add(a, ea)
	m.Add(b, eb)
	save(m)
	if _, ok := open().Find(a, 4096); ok {
		t.Error("found an object that has no name yet")
	}
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, ok := open().Find(b, 4096); !ok || got != eb {
		t.Errorf("find: %+v, %v", got, ok)
	}
	if _, ok := open().Find(b, 8192); ok {
		t.Error("found for another size")
	}

	// A damaged record is ignored, a truncated one is overwritten, the others stay.
	file := filepath.Join(d.Path(), "raw-digests")
	data, err := os.ReadFile(file)
	if err != nil || len(data) != 2*recordSize {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	data[40] ^= 1 // the object of a
	if err := os.WriteFile(file, append(data, data[:30]...), 0o644); err != nil {
		t.Fatal(err)
	}
	m = open()
	if _, ok := m.Find(a, 4096); ok {
		t.Error("found by a broken record")
	}
	m.Add(a, ea)
	save(m)
	for digest, want := range map[[32]byte]chunk.Entry{a: ea, b: eb} {
		if got, ok := open().Find(digest, 4096); !ok || got != want {
			t.Errorf("after the fix: %+v, %v, want %+v", got, ok, want)
		}
	}

	// An object that was removed from the store is made again.
	if err := os.Remove(d.ObjectPath(ea.ID)); err != nil {
		t.Fatal(err)
	}
	if _, ok := open().Find(a, 4096); ok {
		t.Error("found an object that is gone")
	}
}
