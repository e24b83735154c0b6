package identity

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeysThatOthersHave: keys that others may read or write, or that belong to somebody else, are refused.
func TestKeysThatOthersHave(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a file is given to another user")
	}
	dir := filepath.Join(t.TempDir(), "keys")
	if _, err := Open(dir); err != nil {
		t.Fatal(err)
	}
	refused := func(path, want string) {
		t.Helper()
		_, err := Open(dir)
		var bad *KeyError
		if !errors.As(err, &bad) || bad.Path != path || !strings.Contains(err.Error(), want) || bad.Hint() == "" {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	for _, name := range []string{ServerKeyFile, SecretFile, SiteKeyFile, ""} {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, mode := range []os.FileMode{0o644, 0o777, 0o620} {
			if name == "" && mode == 0o644 {
				continue // listing the directory reveals no key
			}
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			refused(path, "others may read or write it")
		}
		if err := errors.Join(os.Chmod(path, info.Mode().Perm()), os.Chown(path, 4711, 0)); err != nil {
			t.Fatal(err)
		}
		refused(path, "belongs to user 4711")
		if err := os.Chown(path, 0, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err != nil {
			t.Error(err)
		}
	}
}
