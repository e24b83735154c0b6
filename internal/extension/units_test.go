package extension

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Units that an extension enables are started, except templates.
func TestWantedUnits(t *testing.T) {
	place := t.TempDir()
	wants := filepath.Join(place, "usr/lib/systemd/system/multi-user.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.service", "b.timer", "c@.service"} {
		if err := os.Symlink("../"+name, filepath.Join(wants, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := wantedUnits(place); !slices.Equal(got, []string{"a.service", "b.timer"}) {
		t.Errorf("units %q", got)
	}
}
