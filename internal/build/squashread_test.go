package build

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSquashfsIsRead asks unsquashfs and the kernel.
func TestSquashfsIsRead(t *testing.T) {
	needBuilder(t)
	for name, nodes := range map[string][]node{"awkward": awkwardTree(), "edges": edgeTree()} {
		tree, raw := t.TempDir(), filepath.Join(t.TempDir(), "root.squashfs")
		makeTree(t, tree, nodes)
		lost, err := writeSquashfs(t.Context(), tree, raw, 1_700_000_000)
		if err != nil {
			t.Fatal(err)
		}
		if len(lost) != 1 {
			t.Errorf("%s: lost are %v", name, lost)
		}
		if out, err := exec.Command("unsquashfs", "-lls", raw).CombinedOutput(); err != nil {
			t.Errorf("%s: unsquashfs: %v\n%s", name, err, out)
		}
		compareTrees(
			t,
			inSeconds(describe(t, mountAt(t, "-t", "squashfs", "-o", "loop,ro", raw))),
			inSeconds(describe(t, tree)),
		)
	}
}
