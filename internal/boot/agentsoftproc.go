package boot

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// daemonsIn are the processes of block daemons of these names whose root is a directory. A path would not do: the
// mount that they see it on is not the one that is seen after the switch to another root.
func daemonsIn(proc string, dir unix.Stat_t, names ...string) []int {
	entries, _ := os.ReadDir(proc)
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(proc, e.Name(), "cmdline"))
		name, _, _ := strings.Cut(string(line), "\x00")
		if !slices.Contains(names, name) {
			continue
		}
		var root unix.Stat_t
		if unix.Stat(filepath.Join(proc, e.Name(), "root"), &root) == nil && root.Dev == dir.Dev &&
			root.Ino == dir.Ino {
			out = append(out, pid)
		}
	}
	return out
}
