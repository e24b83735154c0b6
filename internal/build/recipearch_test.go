package build

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// One recipe serves both architectures, unless it names one.
func TestRecipeOfAnArchitecture(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lab.yaml")
	put(t, file, []byte("from: debian:bookworm\npackages: [\"grub-efi-{architecture}-bin\"]\n"))
	keys := map[string]bool{}
	for _, a := range []string{"amd64", "arm64"} {
		for _, name := range []string{file, "debian:trixie"} {
			r, err := LoadRecipeFor(name, a)
			if err != nil || r.Architecture != a || !slices.Contains(r.Packages, "linux-image-"+a) {
				t.Fatalf("%s for %s: %+v, %v", name, a, r, err)
			}
			keys[r.key()] = true
		}
	}
	if len(keys) != 4 {
		t.Errorf("%d trees of two recipes for two architectures", len(keys))
	}
	put(t, file, []byte("from: debian:bookworm\narchitecture: amd64\n"))
	if _, err := LoadRecipeFor(file, "arm64"); err == nil ||
		!strings.Contains(err.Error(), "says amd64, and arm64 is asked for") {
		t.Errorf("a recipe of amd64 for arm64: %v", err)
	}
	if _, err := LoadRecipeFor("debian:bookworm", "riscv64"); err == nil ||
		!strings.Contains(err.Error(), "amd64 or arm64") {
		t.Errorf("%v", err)
	}
}
