package store

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"pando/internal/chunk"
)

// TestCheckFile: a file that was changed after it was read is read again, even if its size and time are the same.
func TestCheckFile(t *testing.T) {
	d, err := OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("kernel"), 1000)
	id := chunk.Sum(data)
	if err := d.CheckFile(id); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an object that is not there: %v", err)
	}
	w := d.NewWriter()
	defer w.Close()
	if _, _, err := w.Put(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	path := d.ObjectPath(id)
	if err := d.CheckFile(id); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond) // the kernel's clock of files has to move
	flipped := bytes.Clone(data)
	flipped[3000] ^= 1
	if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, flipped, 0o600),
		os.Chtimes(path, before.ModTime(), before.ModTime())); err != nil {
		t.Fatal(err)
	}
	var wrong *chunk.WrongBytesError
	for range 2 {
		if err := d.CheckFile(id); !errors.As(err, &wrong) {
			t.Errorf("a flipped bit: %v", err)
		}
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.CheckFile(id); err != nil {
		t.Errorf("mended: %v", err)
	}
	if len(d.verified.whole) != 1 {
		t.Errorf("%d files are remembered", len(d.verified.whole))
	}
}
