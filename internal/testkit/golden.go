package testkit

import (
	"os"
	"path/filepath"
)

// Golden compares text with a file in the package's testdata/golden, or writes the file.
func Golden(t T, update bool, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Fatalf("%s differs (go test -update rewrites it); got\n%s\nwant\n%s", name, got, want)
	}
}
