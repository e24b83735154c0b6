package storm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"pando/internal/bench"
	"pando/internal/chunk"
	"pando/internal/lab/rivals"
)

// Each rival serves a small file system. Its client gets the right bytes, over the links. One storm runs all rivals
// whose programs are installed; others are skipped.
func TestRivalsAttach(t *testing.T) {
	needFull(t)
	s, out := newTestStormOf(t, erofsRoot(t), "--nodes", "2", "--think", "0.1", "--systems", "chunks")
	s.Bin = binWithHelpers(t, s.Bin)
	s.wanted = nil
	lacks := map[string]error{}
	for _, x := range rivals.All() {
		lacks[x.Name] = x.Check(s.Bin)
		if x.Name == "nbd-squash" && lacks[x.Name] == nil {
			_, lacks[x.Name] = os.Stat("/dev/fuse")
		}
		if lacks[x.Name] == nil {
			s.wanted = append(s.wanted, x.Name)
		}
	}
	if len(s.wanted) == 0 {
		t.Skip("no program of any rival is here: scripts/install-packages rivals")
	}
	if err := s.Measure(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := bench.ReadJSON[report](filepath.Join(s.Dir, "storm.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range rivals.All() {
		t.Run(x.Name, func(t *testing.T) {
			if lacks[x.Name] != nil {
				t.Skip(lacks[x.Name])
			}
			attached(
				t,
				slices.DeleteFunc(
					slices.Clone(r.Runs),
					func(run stormRun) bool { return run.System != x.Name || run.Nodes != 2 },
				),
			)
		})
	}
	nothingLeft(t, s)
}

// attached checks a rival's only run.
func attached(t *testing.T, runs []stormRun) {
	t.Helper()
	if len(runs) != 1 || len(runs[0].Each) != 2 {
		t.Fatalf("want one run with two nodes: %+v", runs)
	}
	for i, n := range runs[0].Each {
		if n.Booted <= 0 || n.Attached > n.Booted || n.Link < runs[0].Read*3/4 || n.Link > runs[0].Read*4 {
			t.Errorf(
				"%s was attached after %g s and booted after %g s, having read %d bytes and received %d",
				shortName(i),
				n.Attached,
				n.Booted,
				runs[0].Read,
				n.Link,
			)
		}
	}
}

// binWithHelpers returns a directory with the programs of bin and the lab's helpers, made as by `make bench-storm`.
// Helpers that cannot be made are missing.
func binWithHelpers(t *testing.T, bin string) string {
	t.Helper()
	more := t.TempDir()
	for _, name := range []string{"pando", "pando-init"} {
		if err := os.Symlink(filepath.Join(bin, name), filepath.Join(more, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range rivals.All() {
		if x.Helper == "" {
			continue
		}
		source := filepath.Join("..", "..", "..", "tools", x.Helper, x.Helper+".c")
		if out, err := exec.Command("gcc", "-O2", "-Wall", "-o", filepath.Join(more, x.Helper), source,
			"-lnfs").CombinedOutput(); err != nil {
			t.Logf("%s cannot be made: %v: %s", x.Helper, err, out)
		}
	}
	return more
}

// erofsRoot makes a file system with some files that compress to about half.
func erofsRoot(t *testing.T) []byte {
	t.Helper()
	for _, program := range []string{"mkfs.erofs", "fsck.erofs"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%v: install erofs-utils", err)
		}
	}
	tree, file := t.TempDir(), filepath.Join(t.TempDir(), "root")
	content := smallRoot(testRoot)
	for i := 0; len(content) > 0; i++ {
		n := min(len(content), 60_000)
		if err := os.WriteFile(filepath.Join(tree, fmt.Sprintf("file%d", i)), content[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		content = content[n:]
	}
	if out, err := exec.Command("mkfs.erofs", "--quiet", "-Enoinline_data", file, tree).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	root, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for len(root)%chunk.DefaultChunkSize != 0 {
		root = append(root, 0)
	}
	return root
}
