package registry

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/fleet"
)

// Two versions between which a tag is moved.
const (
	oldVersion = fleet.Digest("sha256:1111111111111111111111111111111111111111111111111111111111111111")
	newVersion = fleet.Digest("sha256:2222222222222222222222222222222222222222222222222222222222222222")
)

// withTag makes a registry in dir with an image of two versions and a tag on the first.
func withTag(t *testing.T, dir string) {
	t.Helper()
	r := openIn(t, dir)
	must(t, r, func(tx *Tx) error {
		for _, v := range []fleet.Digest{oldVersion, newVersion} {
			if err := tx.AddVersion(ImageVersion{"lab", v, time.Unix(1, 0)}); err != nil {
				return err
			}
		}
		_, err := tx.PutTag(fleet.Tag{Image: "lab", Tag: "stable", Version: oldVersion})
		return err
	})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// tagChanges are changes of a tag as the server makes them: the change and its record together.
var tagChanges = map[string]struct {
	after fleet.Digest // "": the tag is gone
	do    func(*Tx) error
}{
	"move": {newVersion, func(tx *Tx) error {
		was, err := tx.PutTag(fleet.Tag{Image: "lab", Tag: "stable", Version: newVersion})
		if err != nil {
			return err
		}
		return tx.AddTagMove(
			TagMove{Image: "lab", Tag: "stable", Version: newVersion, Was: was, At: time.Unix(2, 0), Who: "desk"},
		)
	}},
	"delete": {"", func(tx *Tx) error {
		if err := tx.AddTagMove(TagMove{Image: "lab", Tag: "stable", Was: oldVersion, At: time.Unix(2, 0),
			Who: "desk"}); err != nil {
			return err
		}
		return tx.DeleteTag("lab", "stable")
	}},
}

// tagIs returns where the tag points, "" if it was deleted. It fails the test if the record of its moves does not
// match.
func tagIs(t *testing.T, r *Registry) (v fleet.Digest) {
	t.Helper()
	err := r.View(t.Context(), func(tx *Tx) error {
		tag, err := tx.Tag("lab", "stable")
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		v = tag.Version
		moves, err := tx.TagMoves("lab")
		if changed := v != oldVersion; changed != (len(moves) == 1) ||
			changed && (moves[0].Version != v || moves[0].Was != oldVersion) {
			t.Errorf("the tag is on %q, and its moves are %+v", v, moves)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return v
}

// TestTagChangeCutAnywhere: the process is killed, or the power fails, at any moment of a change of a tag. The files
// are written up to some place; after it come nothing, zeros, or the old bytes. Afterwards the tag and the record of
// its moves are both old or both new; after a confirmed change they are new. The next change works.
func TestTagChangeCutAnywhere(t *testing.T) {
	for name, change := range tagChanges {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			withTag(t, dir)
			r := openIn(t, dir)
			must(t, r, func(tx *Tx) error { return tx.putSetting("before", "1") }) // there is a log from here on
			var sync int
			if err := r.main.wdb.QueryRow(`PRAGMA synchronous`).Scan(&sync); err != nil || sync < 2 {
				t.Errorf("synchronous is %d (%v): a change counts as confirmed before it is durable", sync, err)
			}
			before := walOf(t, dir)
			must(t, r, change.do)
			after := walOf(t, dir)
			if len(after) < len(before)+2*4096 || !bytes.HasPrefix(after, before) {
				t.Fatalf("the log had %d bytes and has %d", len(before), len(after))
			}
			file, shared := mustRead(t, filepath.Join(dir, File)), mustRead(t, filepath.Join(dir, File+"-shm"))
			seen := map[fleet.Digest]int{}
			for at, last := len(before), false; !last; at = min(at+1024, len(after)) {
				last = at == len(after)
				rest := [][]byte{nil, make([]byte, len(after)-at), bytes.Repeat([]byte{0xa5}, len(after)-at)}
				for n, tail := range rest {
					cut := map[string][]byte{File: file, File + "-wal": append(bytes.Clone(after[:at]), tail...)}
					if n == 0 {
						cut[File+"-shm"] = shared // of a killed process, the memory that it shared is there still
					}
					seen[opensAfterCut(t, cut, change.after, change.do, last)]++
					if t.Failed() {
						t.Fatalf("%d of %d bytes of the change, variant %d", at-len(before), len(after)-len(before), n)
					}
				}
			}
			if seen[oldVersion] == 0 || seen[change.after] == 0 {
				t.Errorf("the tag was found at %v", seen)
			}
		})
	}
}

// opensAfterCut opens the files after a crash and returns where the tag points.
func opensAfterCut(
	t *testing.T,
	files map[string][]byte,
	goal fleet.Digest,
	again func(*Tx) error,
	confirmed bool,
) fleet.Digest {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Error(err)
		return ""
	}
	defer func() {
		if err := errors.Join(r.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	}()
	got := tagIs(t, r)
	if got != goal && (got != oldVersion || confirmed) {
		t.Errorf("the tag is on %q", got)
	}
	if got == oldVersion {
		must(t, r, again)
		if now := tagIs(t, r); now != goal {
			t.Errorf("after the next try it is on %q", now)
		}
	}
	return got
}

// TestTagChangeOnAFullDisk: on a disk with less and less room, a change of a tag is either made or refused
// completely, and works when there is room.
func TestTagChangeOnAFullDisk(t *testing.T) {
	for name, change := range tagChanges {
		t.Run(name, func(t *testing.T) {
			refused, made := 0, 0
			for pages := range 12 {
				dir := smallDisk(t, 4<<20)
				withTag(t, dir)
				r := openIn(t, dir)
				filler := fill(t, dir)
				if err := unix.Truncate(filler, sizeOf(t, filler)-int64(pages*os.Getpagesize())); err != nil {
					t.Fatal(err)
				}
				err := r.Update(t.Context(), change.do)
				got := tagIs(t, r)
				switch {
				case errors.Is(err, ErrFull) && got == oldVersion:
					refused++
				case err == nil && got == change.after:
					made++
					continue
				default:
					t.Fatalf("%d pages are free: the tag is on %q, %v", pages, got, err)
				}
				if err := os.Remove(filler); err != nil {
					t.Fatal(err)
				}
				must(t, r, change.do)
				if got := tagIs(t, r); got != change.after {
					t.Errorf("with room the tag is on %q", got)
				}
			}
			if refused == 0 || made == 0 {
				t.Errorf("%d changes were refused, %d made", refused, made)
			}
		})
	}
}

func walOf(t *testing.T, dir string) []byte { return mustRead(t, filepath.Join(dir, File+"-wal")) }

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
