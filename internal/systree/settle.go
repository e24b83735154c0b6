package systree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Settle takes the day of the installation out of a tree: files and directories that the installation made get the
// time of the newest file that came in a package, and so do the days on which accounts got their passwords. Two
// installations of the same packages are then one version. Packages' own times stay: what they compiled goes by
// them.
func Settle(tree string, begin time.Time) error {
	return settleWhere(tree, begin, func(string, *unix.Stat_t) (mine, counts bool) { return true, true })
}

// settleWhere is Settle for the files for which look returns mine; the others keep their times. The newest time
// is taken from the files for which it returns counts.
func settleWhere(tree string, begin time.Time, look func(path string, st *unix.Stat_t) (mine, counts bool)) error {
	newest := time.Unix(0, 0)
	var made []string
	err := filepath.WalkDir(tree, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		mine, counts := look(path, &st)
		switch at := time.Unix(st.Mtim.Unix()); {
		case mine && !at.Before(begin):
			made = append(made, path)
		case counts && at.After(newest):
			newest = at
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("settle tree: %w", err)
	}
	if changed, err := settleShadow(tree, begin, newest); err != nil {
		return fmt.Errorf("settle tree: %w", err)
	} else if changed {
		made = append(made, filepath.Join(tree, shadowFile))
	}
	t := unix.NsecToTimespec(newest.UnixNano())
	for _, path := range made {
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("settle tree: %w", &fs.PathError{Op: "set times", Path: path, Err: err})
		}
	}
	return nil
}

const shadowFile = "etc/shadow"

// settleShadow replaces days from begin on by that of newest in shadow(5): in the third field, in days since 1970. The
// file keeps owner and mode, and is not written where nothing changes.
func settleShadow(tree string, begin, newest time.Time) (changed bool, err error) {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return false, err
	}
	defer root.Close()
	text, err := root.ReadFile(shadowFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	const day = 24 * 60 * 60
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		f := strings.Split(line, ":")
		if len(f) > 2 {
			if n, err := strconv.ParseInt(f[2], 10, 64); err == nil && n >= begin.Unix()/day {
				f[2] = strconv.FormatInt(newest.Unix()/day, 10)
			}
		}
		out.WriteString(strings.Join(f, ":"))
	}
	if out.String() == string(text) {
		return false, nil
	}
	return true, root.WriteFile(shadowFile, []byte(out.String()), 0o640)
}

// SettleChanged is Settle for what a step has changed, which is in upper: the rest of the tree is as old as it is.
// A file with several names, of which a step changed one, has all of them in upper afterwards: as a layer below
// another it would be two files. What is below passing goes again, and says nothing of how new the tree is.
func SettleChanged(tree, upper, passing string, begin time.Time) error {
	links := map[uint64][]string{}
	changed := map[uint64]bool{}
	in := func(path string) bool {
		var st unix.Stat_t
		return unix.Lstat(filepath.Join(upper, strings.TrimPrefix(path, tree)), &st) == nil
	}
	err := settleWhere(tree, begin, func(path string, st *unix.Stat_t) (mine, counts bool) {
		mine = in(path)
		if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			links[st.Ino] = append(links[st.Ino], path)
			changed[st.Ino] = changed[st.Ino] || mine
		}
		return mine, passing == "" || !strings.HasPrefix(path, filepath.Join(tree, passing)+"/")
	})
	if err != nil {
		return err
	}
	for ino := range changed {
		for _, path := range links[ino] {
			if changed[ino] && !in(path) {
				if err := copyUp(path); err != nil {
					return fmt.Errorf("settle tree: %w", err)
				}
			}
		}
	}
	return nil
}

// copyUp has the overlay put a name into its upper layer.
func copyUp(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}
