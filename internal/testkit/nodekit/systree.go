package nodekit

import (
	"os"
	"path/filepath"
)

// SysTree makes a /sys of files. A value that starts with "->" makes a link.
func SysTree(t T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, value := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if len(value) > 2 && value[:2] == "->" {
			err = os.Symlink(value[2:], path)
		} else {
			err = os.WriteFile(path, []byte(value+"\n"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}
