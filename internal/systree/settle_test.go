package systree

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSettle: installations of the same packages on two days give the same times.
func TestSettle(t *testing.T) {
	packaged := time.Unix(1_700_000_000, 0)
	install := func(day time.Time) string {
		tree := t.TempDir()
		for name, at := range map[string]time.Time{
			"usr/lib/old":    packaged.Add(-time.Hour),
			"usr/lib/newest": packaged,
			"var/cache/made": day.Add(time.Minute),
			"etc/shadow":     day.Add(time.Hour),
		} {
			path := filepath.Join(tree, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			text := name
			if name == "etc/shadow" {
				text = "root:*:" + days(day) + ":0:99999:7:::\nlab:!:100:0:99999:7:::\nodd\n"
			}
			if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("nowhere", filepath.Join(tree, "etc/link")); err != nil {
			t.Fatal(err)
		}
		if err := Settle(tree, day); err != nil {
			t.Fatal(err)
		}
		return tree
	}
	for _, day := range []time.Time{time.Unix(1_700_900_000, 0), time.Unix(1_760_000_000, 0)} {
		tree := install(day)
		for name, want := range map[string]time.Time{
			"usr/lib/old": packaged.Add(-time.Hour), "usr/lib/newest": packaged, "usr/lib": packaged,
			"var/cache/made": packaged, "etc": packaged, "etc/shadow": packaged, "etc/link": packaged, ".": packaged,
		} {
			info, err := os.Lstat(filepath.Join(tree, name))
			if err != nil {
				t.Fatal(err)
			}
			if !info.ModTime().Equal(want) {
				t.Errorf("installed on %s, %s is of %s, want %s", day, name, info.ModTime(), want)
			}
		}
		shadow, err := os.ReadFile(filepath.Join(tree, "etc/shadow"))
		if want := "root:*:19675:0:99999:7:::\nlab:!:100:0:99999:7:::\nodd\n"; err != nil || string(shadow) != want {
			t.Errorf("installed on %s, the shadow file is %q, want %q (%v)", day, shadow, want, err)
		}
	}
}

func days(at time.Time) string { return strconv.FormatInt(at.Unix()/86400, 10) }

// TestSettleLeavesTheRest: files that a step did not make keep their times and count, even if they were made in the
// second in which the step began.
func TestSettleLeavesTheRest(t *testing.T) {
	tree := t.TempDir()
	begin := time.Unix(1_700_900_000, 0)
	for name, at := range map[string]time.Time{"base": begin.Add(time.Second / 2), "old": begin.Add(-time.Hour),
		"made": begin.Add(time.Minute)} {
		path := filepath.Join(tree, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	err := settleWhere(tree, begin, func(path string, _ *unix.Stat_t) (mine, counts bool) {
		return filepath.Base(path) == "made", path != tree
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]time.Time{"base": begin.Add(time.Second / 2), "old": begin.Add(-time.Hour),
		"made": begin.Add(time.Second / 2)} {
		info, err := os.Stat(filepath.Join(tree, name))
		if err != nil || !info.ModTime().Equal(want) {
			t.Errorf("%s: %v, %v, want %s", name, info.ModTime(), err, want)
		}
	}
}
