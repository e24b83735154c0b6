package build

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/image"
)

// checkExt4 has e2fsck look for anything that is not as it should be, and the kernel read it.
func checkExt4(t *testing.T, raw, tree string) {
	t.Helper()
	out, err := exec.Command("e2fsck", "-fn", raw).CombinedOutput()
	if said := strings.ReplaceAll(string(out), "/lost+found not found.  Create? no\n", ""); strings.Contains(
		said,
		"? no",
	) ||
		err != nil && !strings.Contains(string(out), "lost+found") {
		t.Errorf("e2fsck: %v\n%.4000s", err, out)
	}
	if got, want := describe(t, mountAt(t, "-t", "ext4", "-o", "loop,ro", raw)), describe(t, tree); !slices.Equal(
		got,
		want,
	) {
		compareTrees(t, got, want)
	}
}

// TestExt4IsRead asks e2fsck and the kernel.
func TestExt4IsRead(t *testing.T) {
	needBuilder(t)
	many := slices.Clone(awkwardTree()[:5])
	for i := range 40_000 { // more inodes than a group of blocks has by itself
		many = append(many, node{path: fmt.Sprintf("few/%d/%d", i%90, i), mode: unix.S_IFREG | 0o644})
	}
	dirs := slices.Clone(awkwardTree()[:5])
	for i := range 66_000 { // more than a directory has room to count
		dirs = append(dirs, node{path: fmt.Sprintf("all/%d", i), mode: unix.S_IFDIR | 0o755})
	}
	large := append(
		slices.Clone(awkwardTree()[:5]),
		node{path: "large", mode: unix.S_IFREG | 0o644, size: 44 << 30, data: []byte("the end")},
	)
	trees := map[string][]node{"awkward": awkwardTree(), "edges": edgeTree(), "many": many, "large": large}
	if os.Getenv("PANDO_FULL") != "" {
		trees["directories"] = dirs
	}
	for name, nodes := range trees {
		t.Run(name, func(t *testing.T) {
			tree, raw := t.TempDir(), filepath.Join(t.TempDir(), "root.ext4")
			if name == "directories" { // which ext4 makes only with an index
				tree = mountAt(t, "-t", "tmpfs", "-o", "size=400m,mode=755", "tmpfs")
			}
			makeTree(t, tree, nodes)
			if lost, err := writeExt4(t.Context(), tree, raw, 1_700_000_000); err != nil || len(lost) > 0 {
				t.Fatalf("%v, lost are %v", err, lost)
			}
			if name == "large" {
				checkLarge(t, raw)
				return
			}
			checkExt4(t, raw, tree)
		})
	}
}

// checkLarge looks at a file that has extents outside of its inode.
func checkLarge(t *testing.T, raw string) {
	t.Helper()
	if out, err := exec.Command("e2fsck", "-fn", raw).CombinedOutput(); strings.Count(string(out), "? no") > 1 {
		t.Errorf("e2fsck: %v\n%.4000s", err, out)
	}
	f, err := os.Open(filepath.Join(mountAt(t, "-t", "ext4", "-o", "loop,ro", raw), "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := make([]byte, 7)
	if _, err := f.ReadAt(got, 44<<30-7); err != nil || string(got) != "the end" {
		t.Errorf("it ends with %q, %v", got, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(raw, &st); err != nil || st.Blocks*512 > 32<<20 {
		t.Errorf("the image has %d bytes on the disk, %v", st.Blocks*512, err)
	}
}

// ext4Tree is awkwardTree with a kernel that can read nothing but ext4.
func ext4Tree() []node {
	return append(
		awkwardTree(),
		node{
			path: "usr/lib/modules/6.1.0-test/modules.builtin",
			mode: unix.S_IFREG | 0o644,
			data: []byte("kernel/fs/ext4/ext4.ko\n"),
		},
		node{
			path: "boot/config-6.1.0-test",
			mode: unix.S_IFREG | 0o644,
			data: []byte("# CONFIG_EROFS_FS is not set\nCONFIG_EXT4_FS=y\n"),
		},
	)
}

// TestKernelWithExt4Only: the tree becomes ext4 by itself, whole, with files at chunk starts, and the same everywhere.
func TestKernelWithExt4Only(t *testing.T) {
	opt, r, tree := becomes(
		t,
		ext4Tree,
		2,
		image.Ext4,
		"root file system ext4: kernel 6.1.0-test lacks erofs, lacks squashfs, has ext4 built in",
	)
	checkExt4(t, rawOf(t, opt.Store, r.Manifest), tree)
	const golden = "sha256:3c329302cfae8ccd1b0a9652617f4d33161b8e671f60e12896fd6adb0aa93fcd" // of ext4Revision
	if string(r.Version) != golden {
		t.Errorf("version %s, on another machine and day it was %s", r.Version, golden)
	}
}

// TestExt4GrowsByAByte: the next version shares all chunks but those of the file that changed and of the inodes.
func TestExt4GrowsByAByte(t *testing.T) {
	needBuilder(t)
	tree := t.TempDir()
	makeTree(t, tree, ext4Tree())
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

// A file of 100 GB with next to nothing in it: ext4 takes no time and no room for it; EROFS has no holes, and where
// there is no room the error names the file.
func TestHugeSparseFile(t *testing.T) {
	needBuilder(t)
	tree := t.TempDir()
	makeTree(
		t,
		tree,
		append(
			ext4Tree(),
			node{path: "srv/disk", mode: unix.S_IFREG | 0o644, size: 100 << 30, data: []byte("the end")},
		),
	)
	opt := testOptions(t, t.TempDir(), tree)
	var peak, before unix.Rusage
	begin := time.Now()
	if err := unix.Getrusage(unix.RUSAGE_SELF, &before); err != nil {
		t.Fatal(err)
	}
	r := mustBuild(t, opt)
	if err := unix.Getrusage(unix.RUSAGE_SELF, &peak); err != nil {
		t.Fatal(err)
	}
	if r.Manifest.Root.Size < 100<<30 || r.Manifest.Sizes.Stored > 20<<20 {
		t.Errorf("%d bytes are stored as %d", r.Manifest.Root.Size, r.Manifest.Sizes.Stored)
	}
	t.Logf(
		"100 GB in %s, %d MB stored, %d MB of memory at most (before: %d)",
		time.Since(begin).Round(time.Second),
		r.Manifest.Sizes.Stored>>20,
		peak.Maxrss>>10,
		before.Maxrss>>10,
	)
	checkStore(t, opt.Store, 1)
	var st unix.Statfs_t
	if err := unix.Statfs(tree, &st); err != nil || int64(st.Bavail)*st.Bsize > 100<<30 {
		t.Logf("there is room for it here; %v", err)
		return
	}
	if err := os.WriteFile(tree+"/boot/config-6.1.0-test", []byte("CONFIG_EROFS_FS=y\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Image(t.Context(), opt); !errors.Is(err, unix.ENOSPC) ||
		!strings.Contains(err.Error(), `most of them in "/srv/disk"`) {
		t.Errorf("as EROFS: %v", err)
	}
}

// Attributes that ext4 has no room for are an error that names the file.
func TestExt4Attributes(t *testing.T) {
	needBuilder(t)
	tree := mountAt(t, "-t", "tmpfs", "-o", "size=20m,mode=755", "tmpfs")
	makeTree(
		t,
		tree,
		[]node{
			{
				path:   "dir/file",
				mode:   unix.S_IFREG | 0o644,
				xattrs: map[string]string{"user.x": strings.Repeat("v", 4100)},
			},
		},
	)
	_, err := writeExt4(t.Context(), tree, filepath.Join(t.TempDir(), "raw"), 1)
	if err == nil || !strings.Contains(err.Error(), "dir/file: its 1 attributes have more than") {
		t.Errorf("error %v", err)
	}
}

// FuzzExt4: a broken image gives an error and nothing else.
func FuzzExt4(f *testing.F) {
	tree, raw := f.TempDir(), filepath.Join(f.TempDir(), "root.ext4")
	if err := errors.Join(os.Mkdir(tree+"/dir", 0o755), os.WriteFile(tree+"/dir/file", make([]byte, 5000), 0o644), os.Symlink("dir/file", tree+"/link")); err != nil {
		f.Fatal(err)
	}
	if _, err := writeExt4(f.Context(), tree, raw, 1); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(raw)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := openExt4(bytes.NewReader(b))
		if err != nil {
			return
		}
		files, _, err := e.files()
		if err == nil && len(files) > len(b) {
			t.Errorf("%d files in %d bytes", len(files), len(b))
		}
		_, _ = e.list(true) // it ends
	})
}
