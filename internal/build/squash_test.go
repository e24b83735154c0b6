package build

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pando/internal/image"
	"pando/internal/imagefs"
	"pando/internal/steps"
	"pando/internal/testkit"
)

// squashTree returns the tree of awkward files with a kernel that can read only squashfs.
func squashTree() []testkit.Node {
	return append(
		testkit.AwkwardTree(),
		testkit.Node{
			Path: "usr/lib/modules/6.1.0-test/kernel/fs/squashfs/squashfs.ko.xz",
			Mode: unix.S_IFREG | 0o644,
			Data: []byte("module"),
		},
		testkit.Node{
			Path: "boot/config-6.1.0-test",
			Mode: unix.S_IFREG | 0o644,
			Data: []byte("# CONFIG_EROFS_FS is not set\nCONFIG_SQUASHFS=m\n"),
		},
	)
}

// becomes builds a tree and checks that the builder chooses the file system want and reports it with note. It checks
// the map of the root, and that the same tree in another order, on another file system, gives the same version. The
// last keep nodes stay last.
func becomes(t *testing.T, nodes func() []testkit.Node, keep int, want, note string) (Options, Result, string) {
	t.Helper()
	testkit.NeedBuilder(t)
	tree := t.TempDir()
	testkit.MakeTree(t, tree, nodes())
	opt := testOptions(t, t.TempDir(), tree)
	var notes []string
	opt.Progress = func(p steps.Progress) { notes = append(notes, p.Note) }
	r := mustBuild(t, opt)
	if r.Manifest.Root.FileSystem != want {
		t.Fatalf("it became %s", r.Manifest.Root.FileSystem)
	}
	if !slices.Contains(notes, note) {
		t.Errorf("not said: %q", notes)
	}
	checkStore(t, opt.Store, 1)
	m, err := imagefs.ReadMap(t.Context(), opt.Store, r.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	f, ok := m.Find("large")
	if at, in := m.At(f.Start + 3); !ok || !in || at.Path != "large" || f.Size != 3<<20+17 {
		t.Errorf("large is %+v, its fourth block is of %+v", f, at)
	}
	if l, ok := m.Find("dangling"); !ok || l.Target != "/"+strings.Repeat("nowhere/", 500) ||
		l.Size != int64(len(l.Target)) {
		t.Errorf("the link is %+v", l)
	}
	second, other := testkit.MountAt(t, "-t", "tmpfs", "-o", "size=200m,mode=755", "tmpfs"), nodes()
	slices.Reverse(other[5 : len(other)-keep])
	testkit.MakeTree(t, second, other)
	if again := mustBuild(t, testOptions(t, t.TempDir(), second)); again.Version != r.Version {
		t.Errorf("two versions of one tree:\n%+v\n%+v", r.Manifest, again.Manifest)
	}
	return opt, r, tree
}

// TestKernelWithoutErofs: the tree of a kernel without EROFS becomes a squashfs, complete, with files at chunk
// borders, and the same on every machine.
func TestKernelWithoutErofs(t *testing.T) {
	opt, r, tree := becomes(
		t,
		squashTree,
		1,
		image.Squashfs,
		"root file system squashfs: kernel 6.1.0-test lacks erofs, has squashfs as a module",
	)
	raw := rawOf(t, opt.Store, r.Manifest)
	testkit.CompareTrees(
		t,
		testkit.InSeconds(testkit.Describe(t, testkit.MountAt(t, "-t", "squashfs", "-o", "loop,ro", raw))),
		testkit.InSeconds(testkit.Describe(t, tree)),
	)
	opt.Format = image.Erofs
	if _, err := Image(t.Context(), opt); err == nil ||
		!strings.Contains(err.Error(), "cannot read erofs; it can read squashfs") {
		t.Errorf("erofs for a kernel that cannot read it: %v", err)
	}
}

// TestSquashfsGrowsByAByte: the next version shares all chunks except those of the changed file and of the tables.
func TestSquashfsGrowsByAByte(t *testing.T) {
	testkit.NeedBuilder(t)
	tree := t.TempDir()
	testkit.MakeTree(t, tree, squashTree())
	opt := testOptions(t, t.TempDir(), tree)
	first := mustBuild(t, opt)
	if err := appendByte(tree + "/bin/ping"); err != nil {
		t.Fatal(err)
	}
	second := mustBuild(t, opt)
	if second.NewBytes > first.NewBytes/4 || second.Version == first.Version {
		t.Errorf("%d of %d bytes are new", second.NewBytes, first.NewBytes)
	}
	t.Logf("a byte more in one file: %d of %d bytes are new", second.NewBytes, first.NewBytes)
}

func appendByte(name string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte{1})
	return errors.Join(err, f.Close())
}
