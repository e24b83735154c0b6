package source

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// day is the time of the files in these tests.
var day = time.Date(2024, 5, 6, 7, 8, 9, 123456789, time.UTC)

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: trees have owners and device nodes")
	}
}

// file, dir, link, hard and the functions below return entries of an archive with the time day, owned by root.
func file(name, content string) entry {
	return entry{h: tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, content: content}
}

func dir(name string) entry {
	return entry{h: tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}}
}

func link(name, target string) entry {
	return entry{h: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}}
}

func hard(name, target string) entry {
	return entry{h: tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}}
}

type entry struct {
	h       tar.Header
	content string
}

// with changes the header of an entry.
func (e entry) with(change func(*tar.Header)) entry {
	e.h.PAXRecords = nil
	change(&e.h)
	return e
}

// archiveOf returns a tar archive.
func archiveOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.h
		h.Format, h.Size = tar.FormatPAX, int64(len(e.content))
		if h.ModTime.IsZero() {
			h.ModTime = day
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatalf("%q: %v", h.Name, err)
		}
		if _, err := w.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpackLayers unpacks archives as layers into a new tree.
func unpackLayers(t testing.TB, layers ...[]byte) (tree string, notes []string, err error) {
	t.Helper()
	needRoot(t)
	tree = filepath.Join(t.TempDir(), "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := newBudget(tree, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	u, err := newUnpacker(tree, true, b)
	if err != nil {
		t.Fatal(err)
	}
	defer u.close()
	for i, l := range layers {
		if err := u.packedArchive(t.Context(), bytes.NewReader(l)); err != nil {
			return tree, nil, fmt.Errorf("layer %d: %w", i+1, err)
		}
	}
	notes, err = u.finish(t.Context())
	return tree, notes, err
}

// describe lists a tree, one line for each file, with everything that an image stores.
func describe(t testing.TB, tree string) []string {
	t.Helper()
	var out []string
	first := map[uint64]string{}
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(tree, path) // it is below
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("%s %o %d:%d %d.%09d", rel, st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", b)
		case unix.S_IFLNK:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " -> " + target
		case unix.S_IFCHR, unix.S_IFBLK:
			line += fmt.Sprintf(" %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
		}
		if was, ok := first[st.Ino]; ok {
			line += " is " + was
		}
		first[st.Ino] = rel
		out = append(out, line+xattrsOf(t, path))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func xattrsOf(t testing.TB, path string) string {
	t.Helper()
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, buf)
	if err != nil {
		t.Fatal(err)
	}
	out := ""
	names := strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00")
	slices.Sort(names)
	for _, name := range names {
		if name == "" {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(path, name, value)
		if err != nil {
			t.Fatal(err)
		}
		out += fmt.Sprintf(" %s=%q", name, value[:n])
	}
	return out
}

// names lists the files of a tree by their paths.
func names(t testing.TB, tree string) []string {
	t.Helper()
	var out []string
	for _, line := range describe(t, tree) {
		name, _, _ := strings.Cut(line, " ")
		if name != "." {
			out = append(out, name)
		}
	}
	return out
}
