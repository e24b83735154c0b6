package blockapi

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// Daemons of one root are told from those of another by their root directory, and from other processes by their
// names.
func TestDaemonsOfARoot(t *testing.T) {
	proc, old, next := t.TempDir(), t.TempDir(), t.TempDir()
	for pid, x := range map[string][2]string{
		"10": {SupervisorName + "\x00/pando-init\x00", old}, "11": {DaemonName + "\x00/pando-init\x00", old},
		"20": {SupervisorName + "\x00/pando-init\x00", next}, "21": {DaemonName + "\x00/pando-init\x00", next},
		"30": {"pando-agent\x00", old}, "31": {"@pando-volume" + "\x00", old}, "self": {DaemonName + "\x00", old},
	} {
		dir := filepath.Join(proc, pid)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(x[1], filepath.Join(dir, "root")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cmdline"), []byte(x[0]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var dir unix.Stat_t
	if err := unix.Stat(old, &dir); err != nil {
		t.Fatal(err)
	}
	if got := daemonsIn(proc, dir, SupervisorName, DaemonName); !slices.Equal(got, []int{10, 11}) {
		t.Errorf("%v", got)
	}
	if got := daemonsIn(proc, dir, SupervisorName); !slices.Equal(got, []int{10}) {
		t.Errorf("supervisors: %v", got)
	}
}
