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

// Settle removes the date of the installation from a tree, so that two installations of the same packages give the
// same version. Files made by the installation get the time of the newest packaged file, as do password dates.
// Packaged files keep their times, because compiled files depend on them.
func Settle(tree string, begin time.Time) error {
	return settleWhere(tree, begin, func(string, *unix.Stat_t) (mine, counts bool) { return true, true })
}

// settleWhere is Settle for the files for which look returns mine; the others keep their times. Only files for which
// look returns counts determine the newest time.
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

// settleShadow replaces dates from begin on in shadow(5) by that of newest: the third field, in days since 1970. The
// file keeps owner and mode, and is written only if it changes.
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

// SettleChanged is Settle for the changes of a step, which are in upper. If a step changed one name of a file with
// several, all of them are in upper afterwards; otherwise the layer would split the file. What is below passing is
// temporary, and does not count for the newest time.
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

// copyUp makes the overlay copy a file into its upper layer.
func copyUp(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}
