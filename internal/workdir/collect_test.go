package workdir

import (
	"os"
	"pando/internal/steps"
	"path/filepath"
	"testing"
	"time"
)

// Work that nobody goes on with is removed; what a build uses, what is young and what is no build's stays.
func TestCollectWork(t *testing.T) {
	parent := t.TempDir()
	then := time.Now().Add(-48 * time.Hour)
	unfinished := func(name string, used time.Time) *Dir {
		w, err := Open(t.Context(), parent, name, 1, func(steps.Progress) {})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(w.File("root.erofs"), make([]byte, 100_000), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, f := range []string{w.File("root.erofs"), w.File("lock"), w.Path} {
			if err := os.Chtimes(f, used, used); err != nil {
				t.Fatal(err)
			}
		}
		return w
	}
	unfinished("dir-idle", then).Close()
	unfinished("dir-young", time.Now()).Close()
	defer unfinished("dir-used", then).Close()
	unknown := filepath.Join(parent, "strange")
	if err := os.Mkdir(unknown, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(unknown, then, then); err != nil {
		t.Fatal(err)
	}
	for _, dryRun := range []bool{true, false} {
		gone, err := Collect(parent, time.Now().Add(-24*time.Hour), dryRun)
		if err != nil || len(gone) != 1 || gone[0].Name != "dir-idle" || gone[0].Bytes < 100_000 {
			t.Errorf("dry run %v: %+v, %v", dryRun, gone, err)
		}
	}
	left, err := List(parent)
	if err != nil || len(left) != 3 {
		t.Errorf("left %+v, %v", left, err)
	}
	if gone, err := Collect(filepath.Join(parent, "none"), time.Now(), false); err != nil || gone != nil {
		t.Errorf("of no directory: %v, %v", gone, err)
	}
}
