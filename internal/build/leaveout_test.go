package build

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/image"
	"pando/internal/systree"
	"pando/internal/testkit"
)

// onBtrfs mounts a Btrfs file system in the test's directory, and puts a bootable tree into it.
func onBtrfs(t *testing.T) string {
	t.Helper()
	if known, err := os.ReadFile("/proc/filesystems"); err != nil || !strings.Contains(string(known), "\tbtrfs\n") {
		t.Skip("this kernel has no btrfs")
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "m")
	out, err := exec.Command("sh", "-euc", `cd "$1"; truncate -s 256M r; mkfs.btrfs -q r; mkdir m; mount -o loop r m`,
		"sh", dir).CombinedOutput()
	if err != nil {
		t.Skipf("no btrfs can be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	tree := filepath.Join(at, "tree")
	testkit.Put(t, filepath.Join(tree, "boot/vmlinuz-6.1.0-1"), testkit.FakeKernel("6.1.0-1"))
	testkit.Put(t, filepath.Join(tree, "usr/lib/modules/6.1.0-1/kernel/fs/erofs/erofs.ko"), []byte("m"))
	testkit.Put(t, filepath.Join(tree, "usr/bin/ping"), []byte(strings.Repeat("p", 5000)))
	return tree
}

// TestTreeOfAnotherFileSystem: attributes of the tree's own file system do not make a build fail. They are counted
// and left out of the image. The tree itself does not change, and other attributes stay.
func TestTreeOfAnotherFileSystem(t *testing.T) {
	tree := onBtrfs(t)
	ping := filepath.Join(tree, "usr/bin/ping")
	plain := mustBuild(t, testOptions(t, t.TempDir(), tree))
	attr := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
	attr("setfattr", "-n", "btrfs.compression", "-v", "zstd", filepath.Join(tree, "usr"))
	attr("setfattr", "-n", "btrfs.compression", "-v", "zstd", ping)
	attr("setfattr", "-n", "trusted.overlay.redirect", "-v", "/root", ping)
	opt := testOptions(t, t.TempDir(), tree)
	got := mustBuild(t, opt)
	checkStore(t, opt.Store, 1)
	if got.Version != plain.Version {
		t.Error("the image differs from that of a tree without the attributes")
	}
	want := "3 attributes of the file system that the tree lies on are left out; the first is btrfs.compression of /usr"
	if !slices.Contains(got.Provenance.Warnings, want) {
		t.Errorf("warnings %q, want %q", got.Provenance.Warnings, want)
	}
	if names, err := systree.Xattrs(ping); err != nil || len(names) != 2 {
		t.Errorf("the tree has %q, %v", names, err)
	}
	attr("setfattr", "-n", "user.mine", "-v", "1", ping)
	attr("setfacl", "-m", "u:1234:r", ping)
	kept := mustBuild(t, opt)
	names := xattrsInImage(t, rawOf(t, opt.Store, kept.Manifest), "usr/bin/ping")
	if !slices.Equal(names, []string{"system.posix_acl_access", "user.mine"}) {
		t.Errorf("the image has %q", names)
	}
	if kept.Manifest.Root.FileSystem != image.Erofs {
		t.Error(kept.Manifest.Root.FileSystem)
	}
}

// xattrsInImage mounts a root file system and lists the attributes of one of its files.
func xattrsInImage(t *testing.T, raw, name string) []string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "m")
	if out, err := exec.Command("sh", "-euc", `mkdir "$2"; mount -o loop,ro -t erofs "$1" "$2"`, "sh", raw, at).
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	names, err := systree.Xattrs(filepath.Join(at, name))
	if out, bad := exec.Command("umount", at).CombinedOutput(); bad != nil || err != nil {
		t.Fatalf("%v, %v: %s", err, bad, out)
	}
	slices.Sort(names)
	return names
}
