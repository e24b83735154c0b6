package diskreserve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReserve: the reserve takes half of a small disk. Give gives its room to the given files, whose size and content
// do not change, and to nothing else.
func TestReserve(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts a small disk")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("this machine does not mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	r := New(dir)
	if r.Give() {
		t.Error("there was nothing to give")
	}
	files := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	for _, path := range files {
		if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time there is nothing to do
		if err := r.Take(); err != nil || r.Held() < 1<<20 || r.Held() > 3<<20 {
			t.Fatalf("%d bytes are held, %v", r.Held(), err)
		}
	}
	held := r.Held()
	if err := fill(dir); err != nil {
		t.Fatal(err)
	}
	if !r.Give(Share{files[0], held / 4}, Share{files[1], held / 4}) || r.Held() != 0 {
		t.Errorf("the reserve is not given: %d bytes are held", r.Held())
	}
	free, all, err := r.Room()
	if err != nil || free > step || all != 4<<20 {
		t.Errorf("%d of %d bytes are free for others, %v", free, all, err)
	}
	for i, path := range files {
		got, err := os.ReadFile(path)
		if err != nil || string(got) != "content" {
			t.Errorf("%s has %q, %v", path, got, err)
		}
		room := held / 4
		if i == 1 { // what is left is its own as well
			room = held/2 + held/4
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			_, err = f.Write(make([]byte, room-step))
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Errorf("the room is not that of %s: %v", path, err)
		}
	}
}

// fill takes all free room.
func fill(dir string) error {
	f, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		return err
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("fill: %w", err)
	}
	return f.Close()
}
