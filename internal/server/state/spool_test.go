package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pando/internal/api"
)

// A disk that becomes full while state arrives gives the same error as a full one, and no part of the file is left.
func TestSpoolFillsTheDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("pando-test", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	p := &Spool{dir: filepath.Join(dir, SpoolDir)}
	_, _, err := p.take("A1", strings.NewReader(strings.Repeat("x", 1<<20)))
	if !api.IsCode(err, api.Conflict) || !strings.Contains(err.Error(), "no room for it: 0 MB are free") {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(p.dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if n, _, err := p.take("A1", strings.NewReader("small")); err != nil || n != 5 {
		t.Errorf("then: %d bytes, %v", n, err)
	}
}
