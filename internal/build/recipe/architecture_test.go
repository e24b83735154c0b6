package recipe

import (
	"pando/internal/testkit"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRecipeOfAnArchitecture: a recipe that names no architecture serves both.
func TestRecipeOfAnArchitecture(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lab.yaml")
	testkit.Put(t, file, []byte("from: debian:bookworm\npackages: [\"grub-efi-{architecture}-bin\"]\n"))
	keys := map[string]bool{}
	for _, a := range []string{"amd64", "arm64"} {
		for _, name := range []string{file, "debian:trixie"} {
			r, err := LoadFor(name, a)
			if err != nil || r.Architecture != a || !slices.Contains(r.Packages, "linux-image-"+a) {
				t.Fatalf("%s for %s: %+v, %v", name, a, r, err)
			}
			keys[r.Key()] = true
		}
	}
	if len(keys) != 4 {
		t.Errorf("%d trees of two recipes for two architectures", len(keys))
	}
	testkit.Put(t, file, []byte("from: debian:bookworm\narchitecture: amd64\n"))
	if _, err := LoadFor(file, "arm64"); err == nil ||
		!strings.Contains(err.Error(), "says amd64, and arm64 is asked for") {
		t.Errorf("a recipe of amd64 for arm64: %v", err)
	}
	if _, err := LoadFor("debian:bookworm", "riscv64"); err == nil ||
		!strings.Contains(err.Error(), "amd64 or arm64") {
		t.Errorf("%v", err)
	}
}
