package hooks

import (
	"os"
	"path/filepath"
	"testing"
)

// Only files of root in the directory of hooks are hooks; nothing else is run.
func TestFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"good": 0o700, "open": 0o722, "plain": 0o600} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Find(dir, "good"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"open", "plain", "none", "../" + filepath.Base(dir) + "/good", "", "."} {
		if path, err := Find(dir, name); err == nil {
			t.Errorf("hook %q is %s", name, path)
		}
	}
}
