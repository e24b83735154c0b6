package storm

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
	"pando/internal/lab/rivals"
)

// treeMaterial returns an image whose root is already extracted.
func treeMaterial(t *testing.T) (m *testbed.Material, squashfs string) {
	t.Helper()
	m = &testbed.Material{Image: &bench.Image{Version: "sha256:ab", Scratch: t.TempDir()}}
	for _, name := range []string{"ab.img", "ab.tree/etc/hostname"} {
		file := filepath.Join(m.Scratch, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("grove\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return m, filepath.Join(m.Scratch, "ab.squashfs")
}

// While boots are recorded, a squashfs is made if a rival needs one, and otherwise nothing.
func TestFilesBesideARecording(t *testing.T) {
	for _, x := range []struct {
		wanted []string
		made   bool
	}{
		{[]string{"peers", "nbd", "nfs"}, false},
		{[]string{"nbd", "torrent"}, true},
		{[]string{"nbd-squash"}, true},
	} {
		m, file := treeMaterial(t)
		if err := (&Storm{rivals: rivals.All(), wanted: x.wanted}).filesBeside(t.Context(), m); err != nil {
			t.Fatalf("%v: %v", x.wanted, err)
		}
		if info, err := os.Stat(file); (err == nil && info.Size() > 0) != x.made {
			t.Errorf("%v: %v, want a squashfs: %v", x.wanted, err, x.made)
		}
	}
}

// An error of making the squashfs is reported. An interrupted run leaves no file that looks complete.
func TestFilesBesideThatFail(t *testing.T) {
	m, file := treeMaterial(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := (&Storm{rivals: rivals.All(), wanted: []string{"torrent"}}).filesBeside(ctx, m); err == nil {
		t.Error("no error of a squashfs that was broken off")
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("%s: %v", file, err)
	}
}
