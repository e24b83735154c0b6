package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pando/internal/api"
)

// A disk that fills up while state comes is told as one that is too full from the start; nothing of it is left.
func TestParcelFillsTheDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("pando-test", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	p := newParcels(filepath.Join(dir, parcelsDir))
	p.free = 0
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

// What a server that was killed leaves is removed, and what it cannot know to be for nobody is not.
func TestParcelsAreSwept(t *testing.T) {
	s, a, _, order := startCopied(t)
	if e := a.sends(order, "Bearer "+a.session, strings.NewReader("state")); e != nil {
		t.Fatal(e)
	}
	for _, name := range []string{order + ".new", "NOBODY", "NOBODY.new"} {
		if err := os.WriteFile(s.parcels.path(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.settleCopies(t.Context()); err != nil {
		t.Error(err)
	}
	if got := s.kept(); len(got) != 1 || got[0] != order {
		t.Errorf("left: %v", got)
	}
	s.stop()
	if err := s.settleCopies(t.Context()); err == nil {
		t.Error("without a registry it is known what is for nobody")
	}
	if _, err := os.Stat(s.parcels.path(order)); errors.Is(err, os.ErrNotExist) {
		t.Error("without a registry everything was removed")
	}
}
