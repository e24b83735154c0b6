package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/erofs/go-erofs"
	"golang.org/x/sys/unix"

	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/store"
)

var update = flag.Bool("update", false, "rewrite golden files")

// needBuilder skips where an image cannot be built at all.
func needBuilder(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: trees have owners and device nodes")
	}
	for _, program := range []string{"mkfs.erofs", "fsck.erofs"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed (Debian package erofs-utils)", program)
		}
	}
}

// testKey is the same in every test, so that signatures are too.
func testKey(t testing.TB) (string, minisign.PrivateKey) {
	t.Helper()
	pub, key, err := minisign.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{7}, 64)))
	if err != nil {
		t.Fatal(err)
	}
	return pub.String(), key
}

// testOptions builds from a directory with drivers that are three bytes long.
func testOptions(t testing.TB, data, dir string) Options {
	t.Helper()
	d, err := store.OpenDir(filepath.Join(data, "store"))
	if err != nil {
		t.Fatal(err)
	}
	_, key := testKey(t)
	return Options{
		FromDir: dir, Store: d, Work: filepath.Join(data, "work"), Key: key, Builder: "test",
		drivers: func(context.Context, DriverOptions) ([]DriverCPIO, error) {
			return []DriverCPIO{{Name: "base", Data: []byte("drv")}}, nil
		},
	}
}

func mustBuild(t testing.TB, opt Options) Result {
	t.Helper()
	r, err := Image(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkStore fails the test unless the store is whole and has so many versions.
func checkStore(t testing.TB, d *store.Dir, versions int) {
	t.Helper()
	pub, _ := testKey(t)
	r, err := d.Check(t.Context(), []string{pub}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Problems {
		t.Errorf("store: %s", p)
	}
	if r.Versions != versions {
		t.Errorf("the store has %d whole versions, want %d", r.Versions, versions)
	}
}

// rawOf puts a root file system together from the store, as a node would read it.
func rawOf(t *testing.T, d *store.Dir, m image.Manifest) string {
	t.Helper()
	get := func(id chunk.ID) []byte {
		b, err := d.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	root, err := chunk.DecodeRoot(get(m.Root.Index))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "root.erofs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	off := int64(0)
	for i, ref := range root.Pages {
		page, err := root.DecodePage(i, get(ref.ID))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			if e.Codec != chunk.Zero {
				raw := make([]byte, e.RawSize)
				if err := chunk.Decode(raw, get(e.ID), e.Codec); err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteAt(raw, off); err != nil {
					t.Fatal(err)
				}
			}
			off += int64(e.RawSize)
		}
	}
	if off != m.Root.Size {
		t.Fatalf("the index covers %d bytes, the manifest says %d", off, m.Root.Size)
	}
	if err := f.Truncate(off); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// mount mounts something until the test ends, or skips.
func mount(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", append(args, dir)...).CombinedOutput(); err != nil {
		t.Skipf("this machine does not mount it (%v: %s)", err, bytes.TrimSpace(out))
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func TestEverythingSurvives(t *testing.T) {
	needBuilder(t)
	tree := t.TempDir()
	makeTree(t, tree, awkwardTree())
	opt := testOptions(t, t.TempDir(), tree)
	r := mustBuild(t, opt)
	checkStore(t, opt.Store, 1)
	raw := rawOf(t, opt.Store, r.Manifest)
	if out, err := exec.Command("fsck.erofs", "--extract", raw).CombinedOutput(); err != nil {
		t.Errorf("fsck.erofs: %v\n%s", err, out)
	}
	want := describe(t, tree)
	got := describe(t, mount(t, "-t", "erofs", "-o", "loop,ro", raw))
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("lost or changed: %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("not in the tree:  %s", line)
		}
	}
	if left, _ := os.ReadDir(opt.Work); len(left) > 0 {
		t.Errorf("left in the work directory: %v", left)
	}
	if m := r.Manifest; m.Kernel.Release != "6.1.0-test" || m.Architecture != "amd64" || len(m.Drivers) != 1 {
		t.Errorf("manifest: %+v", m)
	}
}

// A file of more than 4 GiB, nearly all of it a hole, survives and costs next to nothing in the store.
func TestHugeFile(t *testing.T) {
	needBuilder(t)
	if os.Getenv("PANDO_FULL") == "" {
		t.Skip("writes 5 GB: PANDO_FULL is not set (make test-full sets it)")
	}
	tree := t.TempDir()
	nodes := append(awkwardTree(), node{path: "huge", mode: unix.S_IFREG | 0o644, size: 4<<30 + 12345, data: []byte("the end")})
	makeTree(t, tree, nodes)
	opt := testOptions(t, t.TempDir(), tree)
	r := mustBuild(t, opt)
	checkStore(t, opt.Store, 1)
	if r.Manifest.Root.Size < 4<<30 || r.Manifest.Sizes.Stored > 20<<20 {
		t.Errorf("%d bytes are stored as %d", r.Manifest.Root.Size, r.Manifest.Sizes.Stored)
	}
	got := describe(t, mount(t, "-t", "erofs", "-o", "loop,ro", rawOf(t, opt.Store, r.Manifest)))
	if want := describe(t, tree); !slices.Equal(got, want) {
		t.Error("the trees differ")
	}
}

// The same tree, made in another order, on another file system, under another umask and locale and on
// another day, gives the same version.
func TestSameTreeSameDigest(t *testing.T) {
	needBuilder(t)
	nodes := awkwardTree()
	one := t.TempDir()
	makeTree(t, one, nodes)
	first := mustBuild(t, testOptions(t, t.TempDir(), one))

	rand.New(rand.NewPCG(5, 6)).Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	two := mount(t, "-t", "tmpfs", "-o", "size=200m,mode=755", "tmpfs")
	makeTree(t, two, nodes)
	if a, b := readdir(t, one+"/many"), readdir(t, two+"/many"); slices.Equal(a, b) {
		t.Log("both file systems list a directory in the same order; the test proves less")
	}
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	t.Setenv("LC_ALL", "tr_TR.UTF-8")
	t.Setenv("TZ", "Pacific/Kiritimati")
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	opt := testOptions(t, t.TempDir(), two)
	opt.Now = func() time.Time { return time.Now().Add(400 * 24 * time.Hour) }
	opt.Workers = 7
	second := mustBuild(t, opt)
	if first.Version != second.Version {
		t.Errorf("two versions of one tree:\n%+v\n%+v", first.Manifest, second.Manifest)
	}

	checkGolden(t, first)

	again := mustBuild(t, opt)
	if again.Version != second.Version || !again.Existed || again.NewObjects != 0 {
		t.Errorf("built again: %+v", again)
	}
}

// checkGolden compares with the digest that another machine got on another day with the same mkfs.erofs.
func checkGolden(t *testing.T, r Result) {
	t.Helper()
	const golden = "testdata/awkward.golden"
	line := fmt.Sprintf("mkfs.erofs %s: %s", r.Provenance.Mkfs, r.Version)
	known, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if *update { // other versions' lines stay
		lines := slices.DeleteFunc(strings.SplitAfter(string(known), "\n"), func(l string) bool {
			return strings.HasPrefix(l, "mkfs.erofs "+r.Provenance.Mkfs+":")
		})
		known = []byte(strings.Join(lines, "") + line + "\n")
		if err := os.WriteFile(golden, known, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case strings.Contains(string(known), line+"\n"):
	case strings.Contains(string(known), "mkfs.erofs "+r.Provenance.Mkfs+":"):
		t.Errorf("got %s\nwant %s", line, known)
	default:
		t.Logf("nobody recorded what mkfs.erofs %s makes: %s", r.Provenance.Mkfs, line)
	}
}

func readdir(t *testing.T, dir string) []string {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Our reader of EROFS agrees with another one on where each file lies.
func TestErofsReaderAgainstAnother(t *testing.T) {
	needBuilder(t)
	tree := t.TempDir()
	makeTree(t, tree, awkwardTree())
	opt := testOptions(t, t.TempDir(), tree)
	r := mustBuild(t, opt)
	f, err := os.Open(rawOf(t, opt.Store, r.Manifest))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ours, err := openErofs(f)
	if err != nil {
		t.Fatal(err)
	}
	files, inodes, err := ours.files()
	if err != nil {
		t.Fatal(err)
	}
	if inodes != r.Manifest.Sizes.Files {
		t.Errorf("%d inodes, the manifest says %d", inodes, r.Manifest.Sizes.Files)
	}
	theirs, err := erofs.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, file := range files {
		if !fs.ValidPath(file.Path) {
			continue // a name that io/fs cannot say
		}
		want, err := fs.ReadFile(theirs, file.Path)
		if err != nil {
			t.Fatalf("%q: %v", file.Path, err)
		}
		got := make([]byte, file.Size)
		if _, err := f.ReadAt(got, file.Start); err != nil {
			t.Fatal(err)
		}
		if sha256.Sum256(got) != sha256.Sum256(want) {
			t.Errorf("%q does not lie at %d", file.Path, file.Start)
		}
		compared++
	}
	if compared < 700 {
		t.Errorf("only %d files compared", compared)
	}
}

func FuzzErofs(f *testing.F) {
	for _, name := range []string{"testdata/small.erofs"} {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := openErofs(bytes.NewReader(b))
		if err != nil {
			return
		}
		files, _, err := e.files()
		if err != nil {
			return
		}
		extents := make([]chunk.Extent, len(files))
		for i, file := range files {
			extents[i] = chunk.Extent{Start: file.Start, Size: file.Size, Name: file.Path}
		}
		if e.size() < 1<<30 {
			_, _ = chunk.Split(e.size(), extents, chunk.DefaultChunkSize)
		}
	})
}

func TestTreesThatCannotBeBuilt(t *testing.T) {
	needBuilder(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	mounted := t.TempDir()
	makeTree(t, mounted, awkwardTree()[:8])
	inner := filepath.Join(mounted, "proc")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", inner, "tmpfs", 0, ""); err != nil {
		t.Skipf("no tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(inner, unix.MNT_DETACH) })
	for name, c := range map[string]struct{ dir, want string }{
		"no kernel":     {empty, "linux-image-amd64"},
		"not there":     {filepath.Join(empty, "x"), "no such file"},
		"a file":        {file, "not a directory"},
		"the machine":   {"/", "build from a copy"},
		"a mount point": {mounted, "is a mount point"},
	} {
		opt := testOptions(t, t.TempDir(), c.dir)
		_, err := Image(t.Context(), opt)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
		checkStore(t, opt.Store, 0)
	}
}

// A tree that somebody writes to is not built: nobody could say what the version is of.
func TestTreeThatChanges(t *testing.T) {
	needBuilder(t)
	tree := t.TempDir()
	makeTree(t, tree, awkwardTree())
	opt := testOptions(t, t.TempDir(), tree)
	opt.Progress = func(p Progress) {
		if p.Step == StepErofs {
			if err := os.WriteFile(filepath.Join(tree, "empty"), fmt.Append(nil, time.Now()), 0o644); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := Image(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "changed while it was read") {
		t.Errorf("error %v", err)
	}
	opt.Progress = nil
	mustBuild(t, opt)
	checkStore(t, opt.Store, 1)
}
