package ship

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"aead.dev/minisign"
	"golang.org/x/sys/unix"

	"pando/internal/fleet"
	"pando/internal/store"
	"pando/internal/testkit"
)

// stickWith returns a directory with the first version of an image, and another directory with the second.
func stickWith(t *testing.T) (stick string, from *Directory, first, second fleet.Digest) {
	t.Helper()
	_, key, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	var dirs [2]*Directory
	for i := range dirs {
		if dirs[i], err = OpenDirectory(filepath.Join(t.TempDir(), "stick"), true); err != nil {
			t.Fatal(err)
		}
		v, err := testkit.SmallVersion(t.Context(), dirs[i].store, key, "kernel", 3+i)
		if err == nil {
			err = dirs[i].rename(v, "lab", []string{"latest"})
		}
		if err != nil {
			t.Fatal(err)
		}
		first, second = second, v
	}
	return dirs[0].Name(), dirs[1], first, second
}

// TestPushWithAFaultAnywhere: a push that moves a tag on a stick meets a refused write, a full stick, a killed
// process or a pulled stick, at every operation. The tag is then old or new, and its version is complete. After a
// confirmed push it is new. The next push works.
func TestPushWithAFaultAnywhere(t *testing.T) {
	stick, from, first, second := stickWith(t)
	push := func(dir string, disk store.Disk) error {
		d, err := store.OpenDirOn(dir, disk)
		if err != nil {
			return err
		}
		_, err = Copy(t.Context(), Options{From: from, To: &Directory{store: d}, Ref: "lab"})
		return err
	}
	for _, fault := range []testkit.Fault{testkit.Refuse, testkit.Full, testkit.Kill, testkit.Cut} {
		failed, made := 0, 0
		for at, done := 1, false; !done; at++ {
			dir, disk := filepath.Join(t.TempDir(), "stick"), testkit.NewDisk(fault, at)
			if err := os.CopyFS(dir, os.DirFS(stick)); err != nil {
				t.Fatal(err)
			}
			err := push(dir, disk)
			if done = disk.Operations() < at; done { // all of it is done: the stick is pulled out
				if err := disk.PowerCut(rand.New(rand.NewPCG(uint64(at), 2))); err != nil {
					t.Fatal(err)
				}
			} else if fault == testkit.Cut {
				if err := disk.PowerCut(rand.New(rand.NewPCG(uint64(at), 1))); err != nil {
					t.Fatal(err)
				}
			}
			switch {
			case err == nil:
				made++
			case !errors.Is(err, testkit.ErrKilled) && !errors.Is(err, unix.EIO) && !errors.Is(err, unix.ENOSPC):
				t.Errorf("%s at %d: %v", fault, at, err)
			default:
				failed++
			}
			if got := pointsAt(t, dir); got != second && (got != first || err == nil) {
				t.Errorf("%s at %d: the tag is on %s, %v", fault, at, got, err)
			}
			if err := push(dir, testkit.NewDisk("", 0)); err != nil || pointsAt(t, dir) != second {
				t.Errorf("%s at %d, then again: %v", fault, at, err)
			}
			if t.Failed() || at > 1000 {
				t.Fatalf("%s at operation %d", fault, at)
			}
		}
		if failed < 15 || made == 0 {
			t.Errorf("%s: %d pushes failed, %d did not", fault, failed, made)
		}
	}
}

// pointsAt checks a directory and returns where its tag points.
func pointsAt(t *testing.T, dir string) fleet.Digest {
	t.Helper()
	d, err := OpenDirectory(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := d.store.Lock(t.Context(), "look") // removes what a writer that died has left
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if r, err := d.store.Check(t.Context(), nil, nil); err != nil || len(r.Problems) > 0 {
		t.Errorf("the directory: %+v, %v", r.Problems, err)
	}
	v, err := d.Find(t.Context(), "lab:latest")
	if err != nil {
		t.Error(err)
	}
	if _, err := d.store.GetVersion(v); err != nil {
		t.Errorf("what the tag names: %v", err)
	}
	return v
}
