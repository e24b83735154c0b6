package build

import (
	"errors"
	"fmt"
	"os"
	"pando/internal/build/rootfs"
	"pando/internal/systree"
	"pando/internal/testkit"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// buildAndMount builds a tree, extracts its root file system from the store, and returns the mount point.
func buildAndMount(t *testing.T, tree string) (string, Result) {
	t.Helper()
	opt := testOptions(t, t.TempDir(), tree)
	r := mustBuild(t, opt)
	return testkit.MountAt(t, "-t", "erofs", "-o", "loop,ro", rawOf(t, opt.Store, r.Manifest)), r
}

func TestEdgesSurvive(t *testing.T) {
	testkit.NeedBuilder(t)
	tree := t.TempDir()
	testkit.MakeTree(t, tree, testkit.EdgeTree())
	root, r := buildAndMount(t, tree)
	testkit.CompareTrees(t, testkit.Describe(t, root), testkit.Describe(t, tree))
	for _, w := range r.Provenance.Warnings {
		if strings.Contains(w, "1970") {
			t.Errorf("a warning without need: %s", w)
		}
	}
}

// TestLargeXattrsSurvive: attributes as large as EROFS can store survive. They are made on tmpfs, because ext4 stores
// only 4 KB of them.
func TestLargeXattrsSurvive(t *testing.T) {
	testkit.NeedBuilder(t)
	most := strings.Repeat("v", rootfs.MaxXattr)
	many := map[string]string{}
	for i := range 2000 {
		many[fmt.Sprintf("user.%d", i)] = strings.Repeat("w", i%100)
	}
	tree := testkit.MountAt(t, "-t", "tmpfs", "-o", "size=200m,mode=755", "tmpfs")
	testkit.MakeTree(t, tree, append(
		testkit.AwkwardTree()[:5],
		testkit.Node{Path: "largest", Mode: unix.S_IFREG, Xattrs: map[string]string{"user.x": most}},
		testkit.Node{
			Path:   "three",
			Mode:   unix.S_IFREG,
			Data:   []byte("x"),
			Xattrs: map[string]string{"user.x": most, "user.y": most, "trusted.z": most},
		},
		testkit.Node{Path: "directory", Mode: unix.S_IFDIR | 0o755, Xattrs: map[string]string{"user.x": most[:6000]}},
		testkit.Node{
			Path: "names",
			Mode: unix.S_IFREG,
			Xattrs: map[string]string{
				"user." + strings.Repeat("n", 250):    "",
				"trusted." + strings.Repeat("n", 247): "v",
			},
		},
		testkit.Node{Path: "many", Mode: unix.S_IFREG, Xattrs: many},
	))
	root, _ := buildAndMount(t, tree)
	testkit.CompareTrees(t, testkit.Describe(t, root), testkit.Describe(t, tree))
}

// TestLimitsNameTheFile: a file that an image cannot store is refused by name before anything is written.
func TestLimitsNameTheFile(t *testing.T) {
	testkit.NeedBuilder(t)
	zeros := strings.Repeat("\x00", 60000)
	for name, c := range map[string]struct {
		files []testkit.Node
		make  func(tree string) error
		want  []string
	}{
		"one attribute too large": { // its length is 0 in 16 bits, and zeros read as attributes
			files: []testkit.Node{{Path: "etc/fat", Mode: unix.S_IFREG,
				Xattrs: map[string]string{"user.x": strings.Repeat("\x00", 65536)}}},
			want: []string{`"etc/fat"`, "user.x", "65536 bytes", "65535"},
		},
		"attributes too large": {
			files: []testkit.Node{{Path: "fat", Mode: unix.S_IFREG, Xattrs: map[string]string{
				"user.a": zeros, "user.b": zeros, "user.c": zeros, "user.d": zeros, "user.e": zeros,
			}}},
			want: []string{`"fat"`, "5 attributes", "262148"},
		},
		"too deep": {
			files: []testkit.Node{{Path: strings.Repeat("d/", rootfs.MaxTreeDepth+1) + "file", Mode: unix.S_IFREG}},
			want:  []string{`"d/d/d/`, `/d/file"`, "257 directories", "takes 256"},
		},
		"path too long": {
			make: func(tree string) error { return makeLongPath(tree, strings.Repeat("long", 50), 21) },
			want: []string{"longlong", "bytes, Linux opens 4095"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree := testkit.MountAt(t, "-t", "tmpfs", "-o", "size=20m,mode=755", "tmpfs")
			testkit.MakeTree(t, tree, append(testkit.AwkwardTree()[:5], c.files...))
			if c.make != nil {
				if err := c.make(tree); err != nil {
					t.Fatal(err)
				}
			}
			opt := testOptions(t, t.TempDir(), tree)
			_, err := Image(t.Context(), opt)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), StepScan) {
					t.Fatalf("error %v, want one with %q", err, want)
				}
			}
			if len(err.Error()) > 400 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			checkStore(t, opt.Store, 0)
		})
	}
}

// makeLongPath makes depth nested directories through file descriptors, because their path is longer than Linux
// accepts.
func makeLongPath(dir, name string, depth int) error {
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range depth {
		if err == nil {
			err = unix.Mkdirat(fd, name, 0o755)
		}
		next := -1
		if err == nil {
			next, err = unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}
		_ = unix.Close(fd)
		fd = next
	}
	_ = unix.Close(fd)
	return err
}

// TestLongestName: a name of 255 bytes survives, or is refused if mkfs.erofs would truncate it.
func TestLongestName(t *testing.T) {
	testkit.NeedBuilder(t)
	version, err := rootfs.MkfsVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	name := "deep/" + strings.Repeat("l", 255)
	tree := t.TempDir()
	testkit.MakeTree(
		t,
		tree,
		append(testkit.AwkwardTree()[:5], testkit.Node{Path: name, Mode: unix.S_IFREG, Data: []byte("x")}),
	)
	if systree.CompareReleases(version, rootfs.FixedLongNames) >= 0 {
		root, _ := buildAndMount(t, tree)
		testkit.CompareTrees(t, testkit.Describe(t, root), testkit.Describe(t, tree))
		return
	}
	opt := testOptions(t, t.TempDir(), tree)
	if _, err := Image(t.Context(), opt); err == nil || !strings.Contains(err.Error(), name) ||
		!strings.Contains(err.Error(), "erofs-utils "+rootfs.FixedLongNames) {
		t.Errorf("error %v", err)
	}
	checkStore(t, opt.Store, 0)
}

// TestTimesBefore1970: mkfs.erofs cannot write times before 1970. The build warns, and the files get the super
// block's time.
func TestTimesBefore1970(t *testing.T) {
	testkit.NeedBuilder(t)
	tree := t.TempDir()
	nodes := append(
		testkit.AwkwardTree()[:5],
		testkit.Node{Path: "newest", Mode: unix.S_IFREG, Mtime: unix.Timespec{Sec: 1760000000, Nsec: 5}},
	)
	for _, sec := range []int64{-1, -86400, -1 << 31} {
		nodes = append(
			nodes,
			testkit.Node{
				Path:  fmt.Sprintf("time/%d", sec),
				Mode:  unix.S_IFREG,
				Mtime: unix.Timespec{Sec: sec, Nsec: 7},
			},
		)
	}
	testkit.MakeTree(t, tree, nodes)
	root, r := buildAndMount(t, tree)
	const when = "2025-10-09 08:53:21"
	if !slices.ContainsFunc(r.Provenance.Warnings, func(w string) bool {
		return strings.Contains(w, `"/time/-1"`) && strings.Contains(w, "3 files") && strings.Contains(w, when)
	}) {
		t.Errorf(
			"warnings %q, want one of 3 files, the first being /time/-1, that get the time %s",
			r.Provenance.Warnings,
			when,
		)
	}
	for _, n := range nodes[len(nodes)-3:] {
		info, err := os.Stat(filepath.Join(root, n.Path))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.ModTime().UTC().Format(time.DateTime); got != when {
			t.Errorf("%s is from %s, the warning says %s", n.Path, got, when)
		}
	}
}

// TestHardLinkIntoBoot: a kernel file with a name in /boot and another beside its modules keeps the latter name.
func TestHardLinkIntoBoot(t *testing.T) {
	testkit.NeedBuilder(t)
	tree := t.TempDir()
	const kept = "usr/lib/modules/6.1.0-test/vmlinuz"
	testkit.MakeTree(
		t,
		tree,
		append(testkit.AwkwardTree()[:5], testkit.Node{Path: kept, Hard: true, Target: "boot/vmlinuz-6.1.0-test"}),
	)
	root, _ := buildAndMount(t, tree)
	got, err := os.ReadFile(filepath.Join(root, kept))
	if err != nil || string(got) != string(testkit.FakeKernel("6.1.0-test")) {
		t.Errorf("%d bytes, error %v", len(got), err)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(root, kept), &st); err != nil || st.Nlink != 1 {
		t.Errorf("%d links, error %v", st.Nlink, err)
	}
	if left, err := os.ReadDir(filepath.Join(root, "boot")); err != nil && !errors.Is(err, os.ErrNotExist) ||
		len(left) > 0 {
		t.Errorf("left in /boot: %v, %v", left, err)
	}
}

// TestHugeSparseFile: the raw image has no holes. If the disk has no room for the holes of the tree, the error names
// the file with the largest ones.
func TestHugeSparseFile(t *testing.T) {
	testkit.NeedBuilder(t)
	tree := t.TempDir()
	testkit.MakeTree(
		t,
		tree,
		append(
			testkit.AwkwardTree(),
			testkit.Node{Path: "srv/disk", Mode: unix.S_IFREG | 0o644, Size: 100 << 30, Data: []byte("the end")},
		),
	)
	opt := testOptions(t, t.TempDir(), tree)
	opt.Work = filepath.Join(tmpfs(t, 10_000), "work")
	if _, err := Image(t.Context(), opt); !errors.Is(err, unix.ENOSPC) ||
		!strings.Contains(err.Error(), `most of them in "/srv/disk"`) {
		t.Errorf("error %v", err)
	}
}
