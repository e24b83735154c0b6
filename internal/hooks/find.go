package hooks

import (
	"fmt"
	"os"
	"pando/internal/fleet"
	"path/filepath"
	"syscall"
)

// Find returns the path of a hook that may be run: an executable file that belongs to root or to the server's user, and
// that nobody else can write.
func Find(dir, name string) (string, error) {
	if err := fleet.ValidHook(name); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	fi, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("hook %s: %w", name, err)
	}
	owner := fi.Sys().(*syscall.Stat_t).Uid
	switch {
	case !fi.Mode().IsRegular() || fi.Mode()&0o100 == 0:
		return "", fmt.Errorf("hook %s: %s is no executable file", name, path)
	case fi.Mode()&0o022 != 0 || owner != 0 && int(owner) != os.Geteuid():
		return "", fmt.Errorf("hook %s: %s belongs to somebody else, or others may write to it", name, path)
	}
	return path, nil
}
