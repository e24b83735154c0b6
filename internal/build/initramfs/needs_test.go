package initramfs

import (
	"os"
	"pando/internal/testkit"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNeedsOfAKernel: a kernel that no node could boot with is refused before the long steps.
func TestNeedsOfAKernel(t *testing.T) {
	root := testkit.FakeTree(t)
	opt := DriverOptions{Tree: root, Release: testkit.TestRelease}
	if err := CheckNeeds(t.Context(), opt); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"nbd", "overlay"} {
		if err := os.Remove(filepath.Join(root, "lib/modules", testkit.TestRelease, "kernel", name+".ko")); err != nil {
			t.Fatal(err)
		}
	}
	if err := CheckNeeds(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "has no nbd, overlay") {
		t.Errorf("a kernel without nbd and overlay: %v", err)
	}
}

// TestDriverListsOfArchitectures: the net part of arm64 has the adapters of boards; the parts of amd64 do not change.
func TestDriverListsOfArchitectures(t *testing.T) {
	is := func(architecture, module string) bool {
		return slices.Contains(DriverLists("", architecture)[1].Devices, module)
	}
	if !is("arm64", "hns3") || !is("arm64", "r8169") || is("amd64", "hns3") || is("", "bcmgenet") {
		t.Error("the adapters of boards are in the wrong part")
	}
}
