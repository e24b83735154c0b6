package initramfs

import (
	"os"
	"pando/internal/testkit"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A kernel that no node could boot with is found before the long work.
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

// The boards of arm64 have their adapters in its part for every NIC, and amd64's parts are as they were.
func TestDriverListsOfArchitectures(t *testing.T) {
	is := func(architecture, module string) bool {
		return slices.Contains(DriverLists("", architecture)[1].Devices, module)
	}
	if !is("arm64", "hns3") || !is("arm64", "r8169") || is("amd64", "hns3") || is("", "bcmgenet") {
		t.Error("the adapters of boards are in the wrong part")
	}
}
