package imagefs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// FuzzSquashfs: a damaged image gives an error, and never a panic.
func FuzzSquashfs(f *testing.F) {
	tree, raw := f.TempDir(), filepath.Join(f.TempDir(), "root.squashfs")
	if err := errors.Join(os.Mkdir(tree+"/dir", 0o755),
		os.WriteFile(tree+"/dir/file", make([]byte, 5000), 0o644)); err != nil {
		f.Fatal(err)
	}
	if _, err := WriteSquashfs(f.Context(), tree, raw, 1); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(raw)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := openSquashfs(bytes.NewReader(b))
		if err != nil {
			return
		}
		files, _, err := s.Files()
		if err == nil && len(files) > len(b) {
			t.Errorf("%d files in %d bytes", len(files), len(b))
		}
		_, _ = s.list(true) // it ends
	})
}
