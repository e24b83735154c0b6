package workdir

import (
	"os"
	"pando/internal/steps"
	"path/filepath"
	"testing"
	"time"
)

// TestCollectWork: unfinished work that is old is removed. What a build uses, what is new and what is no work
// directory stays.
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
	change := unfinished("shell-lab", then)
	if err := change.PutStamp(ChangedPart, Stamp{Of: "x"}); err != nil {
		t.Fatal(err)
	}
	change.Close()
	unfinished(LayerPrefix+"1", then.Add(time.Hour)).Close()
	unknown := filepath.Join(parent, "strange")
	if err := os.Mkdir(unknown, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(unknown, then, then); err != nil {
		t.Fatal(err)
	}
	for _, dryRun := range []bool{true, false} {
		gone, stay, err := Collect(parent, time.Now().Add(-24*time.Hour), then.Add(-time.Hour), dryRun)
		if err != nil || len(gone) != 1 || gone[0].Name != "dir-idle" || gone[0].Bytes < 100_000 || len(stay) != 5 {
			t.Errorf("dry run %v: %+v, %+v, %v", dryRun, gone, stay, err)
		}
		for _, u := range stay {
			if u.Busy != (u.Name == "dir-used" || u.Name == "strange") || u.Changed != (u.Name == "shell-lab") {
				t.Errorf("%+v", u)
			}
		}
	}
	left, err := List(parent)
	if err != nil || len(left) != 5 {
		t.Errorf("left %+v, %v", left, err)
	}
	later := time.Now().Add(time.Hour)
	if gone, _, err := Collect(parent, later, then.Add(-time.Hour), true); err != nil || len(gone) != 1 ||
		gone[0].Name != "dir-young" {
		t.Errorf("all unfinished builds that none uses: %+v, %v", gone, err)
	}
	if gone, _, err := Collect(filepath.Join(parent, "none"), later, later, false); err != nil || gone != nil {
		t.Errorf("of no directory: %v, %v", gone, err)
	}
}
