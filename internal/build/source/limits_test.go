package source

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// fillTar fills a tree from the bytes of a tarball.
func fillTar(t testing.TB, archive []byte, l Limits) (tree string, m Made, err error) {
	t.Helper()
	needRoot(t)
	name := filepath.Join(t.TempDir(), "root.tar")
	check(t, os.WriteFile(name, archive, 0o600))
	return fillTarFile(t, name, l)
}

func fillTarFile(t testing.TB, name string, l Limits) (tree string, m Made, err error) {
	t.Helper()
	p := Place{Root: t.TempDir(), Keep: t.TempDir()}
	m, err = Tar{File: name, Limits: l}.Fill(t.Context(), p, func(Progress) {})
	return p.Root, m, err
}

func piped(t testing.TB, program string, in []byte) []byte {
	t.Helper()
	c := exec.Command(program, "-c")
	c.Stdin = bytes.NewReader(in)
	out, err := c.Output()
	check(t, err)
	return out
}

// TestTarballsPacked: a tarball is unpacked completely with any compression. A truncated or changed one gives an
// error and no tree.
func TestTarballsPacked(t *testing.T) {
	plain := archiveOf(t, dir("etc"), file("etc/issue", strings.Repeat("text ", 1000)), file("z", ""))
	var gz, zst bytes.Buffer
	z := gzip.NewWriter(&gz)
	_, err := z.Write(plain)
	check(t, errors.Join(err, z.Close()))
	s, err := zstd.NewWriter(&zst)
	check(t, err)
	_, err = s.Write(plain)
	check(t, errors.Join(err, s.Close()))
	for name, archive := range map[string][]byte{"plain": plain, "gzip": gz.Bytes(), "zstd": zst.Bytes(),
		"bzip2": piped(t, "bzip2", plain), "xz": piped(t, "xz", plain)} {
		tree, m, err := fillTar(t, archive, Limits{})
		if err != nil || strings.Join(names(t, tree), " ") != "etc etc/issue z" ||
			!strings.HasPrefix(m.Digest, "sha256:") {
			t.Errorf("%s: %v %+v %v", name, names(t, tree), m, err)
		}
		bad := map[string][]byte{"cut off": archive[:len(archive)/2], "without its end": archive[:len(archive)-1]}
		if name == "plain" { // nothing in it says more than where it ends
			bad = map[string][]byte{
				"cut off":                   archive[:len(archive)/2],
				"cut off between two files": archive[:len(archive)-1024],
				"empty":                     nil,
			}
		} else {
			bad["changed"] = flipped(archive)
		}
		for what, b := range bad {
			if tree, _, err := fillTar(t, b, Limits{}); err == nil || len(names(t, tree)) > 0 {
				t.Errorf("%s %s: error %v, the tree has %v", name, what, err, names(t, tree))
			}
		}
	}
}

// TestBombs: a small archive that unpacks to very much is refused, by the limit of the disk or of the user.
func TestBombs(t *testing.T) {
	big := archiveOf(t, file("zeros", strings.Repeat("\x00", 50_000_000)))
	var b bytes.Buffer
	s, err := zstd.NewWriter(&b)
	check(t, err)
	_, err = s.Write(big)
	check(t, errors.Join(err, s.Close()))
	if tree, _, err := fillTar(t, b.Bytes(), Limits{MaxSize: 49_000_000}); err == nil ||
		!strings.Contains(err.Error(), "49 MB that --max-size allows") ||
		len(names(t, tree)) > 0 {
		t.Errorf("error %v, the tree has %v", err, names(t, tree))
	}
	if _, _, err := fillTar(t, b.Bytes(), Limits{MaxSize: 60_000_000}); err != nil {
		t.Error(err)
	}
	unpack := func(change func(*budget)) error {
		tree := t.TempDir()
		limits, err := newBudget(tree, Limits{})
		check(t, err)
		change(limits)
		u, err := newUnpacker(tree, true, limits)
		check(t, err)
		defer u.close()
		return u.packedArchive(t.Context(), bytes.NewReader(b.Bytes()))
	}
	if err := unpack(func(l *budget) { l.from = 1_000_000 }); err == nil ||
		!strings.Contains(err.Error(), "no root file system") {
		t.Errorf("by the ratio: %v", err)
	}
	if err := unpack(func(l *budget) { l.from, l.asked = 1_000_000, true }); err != nil {
		t.Errorf("by the ratio, where the size was given: %v", err)
	}
	if err := unpack(func(l *budget) { l.free = 40_000_000 }); err == nil ||
		!strings.Contains(err.Error(), "40 MB that are free") {
		t.Errorf("by the free space: %v", err)
	}
	if err := unpack(func(l *budget) { l.files = 0 }); err == nil || !strings.Contains(err.Error(), "inode") {
		t.Errorf("by the inodes: %v", err)
	}
}

// TestBombBehindTheEnd: data after the end of an archive, or outside of files, is bounded, too.
func TestBombBehindTheEnd(t *testing.T) {
	needRoot(t)
	tree := t.TempDir()
	limits, err := newBudget(tree, Limits{MaxSize: 1_000_000})
	check(t, err)
	limits.from = 1_000_000
	u, err := newUnpacker(tree, true, limits)
	check(t, err)
	defer u.close()
	endless := io.MultiReader(bytes.NewReader(archiveOf(t, file("a", "x"))), zeroReader{})
	var limit *LimitError
	if err := u.archive(t.Context(), endless); !errors.As(err, &limit) {
		t.Errorf("error %v", err)
	}
}

type zeroReader struct{}

func (zeroReader) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestSparseFile: the holes of a sparse file take no room, but its size counts, because the raw image has no holes.
func TestSparseFile(t *testing.T) {
	needRoot(t)
	at := t.TempDir()
	const size = 3 << 30
	f, err := os.Create(filepath.Join(at, "disk"))
	check(t, err)
	_, err = f.WriteAt([]byte("in the middle"), size/2)
	check(t, errors.Join(err, f.Truncate(size), f.Close()))
	for _, format := range []string{"gnu", "posix"} {
		name := filepath.Join(at, format+".tar")
		if out, err := exec.Command("tar", "-C", at, "--format="+format, "-Scf", name,
			"disk").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		tree, _, err := fillTarFile(t, name, Limits{MaxSize: 4 << 30})
		check(t, err)
		var st unix.Stat_t
		check(t, unix.Stat(filepath.Join(tree, "disk"), &st))
		if st.Size != size || st.Blocks > 1024 {
			t.Errorf("%s: %d bytes in %d blocks", format, st.Size, st.Blocks)
		}
		got := make([]byte, 13)
		g, err := os.Open(filepath.Join(tree, "disk"))
		check(t, err)
		_, err = g.ReadAt(got, size/2)
		check(t, errors.Join(err, g.Close()))
		if string(got) != "in the middle" {
			t.Errorf("%s: it has %q", format, got)
		}
		if _, _, err := fillTarFile(t, name, Limits{MaxSize: 2 << 30}); err == nil ||
			!strings.Contains(err.Error(), `"disk"`) {
			t.Errorf("%s: too large: %v", format, err)
		}
	}
}

// TestManyFiles: many files take little memory: a table entry for each. PANDO_FULL=1 makes a million.
func TestManyFiles(t *testing.T) {
	needRoot(t)
	files, perFile := 20_000, uint64(200)
	if os.Getenv("PANDO_FULL") != "" {
		files = 1_000_000
	}
	r, w := io.Pipe()
	go func() {
		out := tar.NewWriter(w)
		var err error
		for i := 0; i < files && err == nil; i++ {
			err = out.WriteHeader(
				&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("d%d/f%d", i/500, i), Mode: 0o644, ModTime: day},
			)
		}
		w.CloseWithError(errors.Join(err, out.Close()))
	}()
	tree := t.TempDir()
	limits, err := newBudget(tree, Limits{})
	check(t, err)
	u, err := newUnpacker(tree, true, limits)
	check(t, err)
	defer u.close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	check(t, u.archive(context.Background(), r))
	runtime.GC()
	runtime.ReadMemStats(&after)
	if len(u.fresh) < files {
		t.Fatalf("%d entries of %d", len(u.fresh), files)
	}
	used := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d bytes for %d files", used, files)
	if used > int64(perFile)*int64(files) {
		t.Errorf("%d bytes of memory for each file", used/int64(files))
	}
	_, err = u.finish(t.Context())
	check(t, err)
}
