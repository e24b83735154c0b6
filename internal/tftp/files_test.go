package tftp

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestClean(t *testing.T) {
	tests := []struct{ in, want string }{
		{"undionly.kpxe", "undionly.kpxe"},
		{"/undionly.kpxe", "undionly.kpxe"},
		{"//a//b/", "a/b"},
		{`\boot\x64\snponly.efi`, "boot/x64/snponly.efi"},
		{"./a/./b", "a/b"},
		{"a..b", "a..b"},
		{"..", ""}, {"../etc/passwd", ""}, {"a/../../etc/passwd", ""}, {"a/..", ""}, {`..\..\x`, ""}, {"/../x", ""},
		{"", ""}, {"/", ""}, {".", ""}, {"\x01a", ""}, {"\xff\xfe", ""},
		{"a\x00b", "a"}, {"undionly.kpxe\xff", "undionly.kpxe"},
		{"/undionly.kpxe+\x04\x06\x01\x08\xff", "undionly.kpxe+"},
		{"..\x01", ""},
		{string(make([]byte, 300)), ""},
	}
	for _, tt := range tests {
		got, err := clean(tt.in)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("clean(%q) = %q, %v, want %q", tt.in, got, err, tt.want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("../a")
	f.Add(`..\a/.//..`)
	f.Fuzz(func(t *testing.T, s string) {
		if name, err := clean(s); err == nil && !fs.ValidPath(name) {
			t.Errorf("clean(%q) = %q, which is no path inside a tree", s, name)
		}
	})
}

// FS on an os.Root follows no link that leads outside.
func TestFSStaysInside(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	tree := filepath.Join(dir, "tree")
	for _, err := range []error{os.WriteFile(secret, []byte("x"), 0o600),
		os.MkdirAll(filepath.Join(tree, "sub"), 0o755),
		os.WriteFile(filepath.Join(tree, "good"), []byte("good"), 0o644),
		os.Symlink(secret, filepath.Join(tree, "link")),
		os.Symlink("good", filepath.Join(tree, "inside"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(tree)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	files := FS(root.FS())
	for name, ok := range map[string]bool{"good": true, "inside": true, "link": false, "sub": false, "none": false} {
		c, err := files.Open(context.Background(), Request{Name: name})
		if (err == nil) != ok {
			t.Errorf("Open(%q): %v", name, err)
		}
		if ok && c.Size() != 4 {
			t.Errorf("Open(%q): size %d", name, c.Size())
		}
	}
	if _, err := files.Open(context.Background(), Request{Name: "none"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}
