package store

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"aead.dev/minisign"

	"pando/internal/chunk"
	"pando/internal/fleet"
)

// age makes every file of a store old.
func age(t *testing.T, d *Dir) {
	t.Helper()
	then := time.Now().Add(-48 * time.Hour)
	for _, f := range files(t, d) {
		if err := os.Chtimes(f, then, then); err != nil {
			t.Fatal(err)
		}
	}
}

func none(fleet.Digest) bool { return false }

func TestSweep(t *testing.T) {
	d, _, v, public := twoStores(t)
	day := time.Now().Add(-24 * time.Hour)
	held := func(x fleet.Digest) bool { return x == v }
	total := len(files(t, d))

	s, err := d.Sweep(t.Context(), SweepOptions{Hold: none, Before: day})
	if err != nil || len(s.Versions) > 0 || s.Objects > 0 || s.Fresh != 1 || s.Kept != 6 {
		t.Errorf("all is fresh: %+v, %v", s, err)
	}
	age(t, d)
	s, err = d.Sweep(t.Context(), SweepOptions{Hold: none, Before: day, DryRun: true})
	if err != nil || len(s.Versions) != 1 || s.Objects != 8 || len(files(t, d)) != total {
		t.Errorf("dry run: %+v, %v", s, err)
	}
	s, err = d.Sweep(t.Context(), SweepOptions{Hold: held, Before: day})
	if err != nil || len(s.Versions) > 0 || s.Objects != 1 || s.Bytes != 6 || len(files(t, d)) != total-1 {
		t.Errorf("held: %+v, %v", s, err)
	}
	if r, err := d.Check(t.Context(), []string{public}, nil); err != nil || len(r.Problems) > 0 || r.Versions != 1 {
		t.Errorf("the version that is held: %+v, %v", r, err)
	}
	s, err = d.Sweep(t.Context(), SweepOptions{Hold: none, Before: day})
	if left := files(t, d); err != nil || !slices.Equal(s.Versions, []fleet.Digest{v}) || len(left) > 0 {
		t.Errorf("not held: %+v, %v, left %v", s, err, left)
	}
}

// TestSweepSparesWhatIsUsedAgain: an object that a writer uses again counts as written now, because its manifest
// follows.
func TestSweepSparesWhatIsUsedAgain(t *testing.T) {
	d := newDir(t)
	id := putObject(t, d, []byte("used again"))
	age(t, d)
	w := d.NewWriter()
	defer w.Close()
	if _, isNew, err := w.Put(t.Context(), []byte("used again")); err != nil || isNew {
		t.Fatalf("new %v, %v", isNew, err)
	}
	if s, err := d.Sweep(t.Context(), SweepOptions{Hold: none, Before: time.Now().Add(-time.Hour)}); err != nil ||
		s.Objects > 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, ok := d.Stat(id); !ok {
		t.Error("it is gone")
	}
}

// TestSweepOfABrokenStore: a kept version that cannot be read may need any object.
func TestSweepOfABrokenStore(t *testing.T) {
	d := newDir(t)
	_, key, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	v, ids := putVersion(t, d, key)
	putObject(t, d, []byte("unused"))
	if err := os.WriteFile(d.ObjectPath(ids["page"]), []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	age(t, d)
	total := len(files(t, d))
	hold := func(x fleet.Digest) bool { return x == v.Digest }
	var wrong *chunk.WrongBytesError
	s, err := d.Sweep(t.Context(), SweepOptions{Hold: hold, Before: time.Now()})
	if !errors.As(err, &wrong) || s.Objects > 0 || len(files(t, d)) != total {
		t.Errorf("%+v, %v, %d of %d files", s, err, len(files(t, d)), total)
	}
	if s, err = d.Sweep(t.Context(), SweepOptions{Hold: none, Before: time.Now()}); err != nil || len(files(t, d)) > 0 {
		t.Errorf("not held, it can go: %+v, %v", s, err)
	}
}
