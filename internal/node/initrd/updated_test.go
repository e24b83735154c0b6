package initrd

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"pando/internal/rootdir"
)

// A root that packages set up is marked as up to date. One that lacks files that systemd would make, or that has its
// own marks, is left alone.
func TestMarkUpdated(t *testing.T) {
	const hwdb = "usr/lib/systemd/system/systemd-hwdb-update.service"
	whole := []string{"etc/ld.so.cache", "etc/passwd", "usr/bin/true", "var/lib/dpkg/status"}
	for _, c := range []struct {
		name string
		has  []string
		want bool
	}{
		{"set up", whole, true},
		{"no cache of libraries", whole[1:], false},
		{"would make a hardware database", append([]string{hwdb}, whole...), false},
		{"has made it", append([]string{hwdb, "usr/lib/udev/hwdb.bin"}, whole...), true},
		{"says it itself", append([]string{"etc/.updated"}, whole...), false},
	} {
		dir := t.TempDir()
		for _, f := range c.has {
			f = filepath.Join(dir, f)
			if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(f, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		old := time.Unix(1_700_000_000, 123_456_789)
		if err := os.Chtimes(filepath.Join(dir, "usr"), old, old); err != nil {
			t.Fatal(err)
		}
		root, err := rootdir.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		got, err := markUpdated(root)
		root.Close()
		if got != c.want || err != nil {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
		for _, f := range updatedMarks {
			st, err := os.Stat(filepath.Join(dir, f))
			switch {
			case c.want && (err != nil || !st.ModTime().Equal(old)):
				t.Errorf("%s: %s is of %v, %v", c.name, f, st, err)
			case !c.want && err == nil && st.ModTime().Equal(old):
				t.Errorf("%s: %s was made", c.name, f)
			}
		}
	}
}
