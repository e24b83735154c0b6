package imagefs

import (
	"os/exec"
	"pando/internal/testkit"
	"path/filepath"
	"testing"
)

// TestSquashfsIsRead compares the reader with unsquashfs and with the kernel.
func TestSquashfsIsRead(t *testing.T) {
	testkit.NeedBuilder(t)
	for name, nodes := range map[string][]testkit.Node{"awkward": testkit.AwkwardTree(), "edges": testkit.EdgeTree()} {
		tree, raw := t.TempDir(), filepath.Join(t.TempDir(), "root.squashfs")
		testkit.MakeTree(t, tree, nodes)
		lost, err := WriteSquashfs(t.Context(), tree, raw, 1_700_000_000)
		if err != nil {
			t.Fatal(err)
		}
		if len(lost) != 1 {
			t.Errorf("%s: lost are %v", name, lost)
		}
		if out, err := exec.Command("unsquashfs", "-lls", raw).CombinedOutput(); err != nil {
			t.Errorf("%s: unsquashfs: %v\n%s", name, err, out)
		}
		testkit.CompareTrees(
			t,
			testkit.InSeconds(testkit.Describe(t, testkit.MountAt(t, "-t", "squashfs", "-o", "loop,ro", raw))),
			testkit.InSeconds(testkit.Describe(t, tree)),
		)
	}
}
