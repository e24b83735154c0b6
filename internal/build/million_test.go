package build

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/image"
	"pando/internal/testkit"
)

// TestMillionFiles: a million files are built within bounds. The test shows the time, and the memory of this process
// and of the programs that it ran.
func TestMillionFiles(t *testing.T) {
	testkit.NeedBuilder(t)
	if os.Getenv("PANDO_FULL") == "" {
		t.Skip("makes a million files: PANDO_FULL is not set (make test-full sets it)")
	}
	tree := testkit.MountAt(t, "-t", "tmpfs", "-o", "size=2g,nr_inodes=2m,mode=755", "tmpfs")
	testkit.MakeTree(t, tree, testkit.AwkwardTree()[:5])
	for i := range 1000 {
		dir := filepath.Join(tree, "srv", fmt.Sprint(i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for j := range 1000 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file-%d-%d", i, j)), fmt.Append(nil, i%50*j)[:j%2],
				0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, format := range []string{image.Squashfs, image.Erofs} {
		opt := testOptions(t, t.TempDir(), tree)
		builtin := filepath.Join(tree, "usr/lib/modules/6.1.0-test/modules.builtin")
		if err := os.WriteFile(builtin, []byte("kernel/fs/"+format+"/"+format+".ko\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		r := mustBuild(t, opt)
		var own, programs unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &own); err != nil {
			t.Fatal(err)
		}
		if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &programs); err != nil {
			t.Fatal(err)
		}
		t.Logf(
			"%s: %d files in %s (%v), %d MB raw, %d MB stored, memory %d MB, of programs %d MB",
			format,
			r.Manifest.Sizes.Files,
			time.Since(begin).
				Round(time.Second),
			r.Elapsed,
			r.Manifest.Root.Size>>20,
			r.Manifest.Sizes.Stored>>20,
			own.Maxrss>>10,
			programs.Maxrss>>10,
		)
		if r.Manifest.Sizes.Files < 1_000_000 || own.Maxrss>>10 > 1500 ||
			programs.Maxrss>>10 > 5000 { // mkfs.erofs 1.5 takes 4.5 KB for each
			t.Errorf(
				"%s: %d files, %d MB of memory, %d MB of programs",
				format,
				r.Manifest.Sizes.Files,
				own.Maxrss>>10,
				programs.Maxrss>>10,
			)
		}
	}
}
