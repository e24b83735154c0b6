package initrd

import (
	"errors"
	"slices"
	"testing"
)

// A pando in /opt finds the programs that `make install PREFIX=/opt` puts there.
func TestProgramDirs(t *testing.T) {
	want := []string{"/opt/bin", "/opt/lib/pando", "/usr/lib/pando"}
	if got := programDirs("/opt/bin/pando", nil); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := programDirs("", errors.New("no /proc")); !slices.Equal(got, want[2:]) {
		t.Errorf("%q, want %q", got, want[2:])
	}
}
