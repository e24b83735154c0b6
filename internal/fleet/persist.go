package fleet

import (
	"fmt"
	"slices"
	"strings"
)

// FilePrefix precedes a path that is kept as a single file. A path without it is a directory, unless the image has a
// file there.
const FilePrefix = "file:"

// Kept is a path of a node that outlives reboots.
type Kept struct {
	Path string
	File bool // declared with FilePrefix
}

// ParsePersist parses "/var/log" or "file:/etc/app.conf". It does not check that the path can be kept.
func ParsePersist(s string) Kept {
	path, file := strings.CutPrefix(s, FilePrefix)
	return Kept{Path: path, File: file}
}

// Kept returns the parsed paths that are kept.
func (k Keeping) Kept() []Kept {
	var out []Kept
	for _, s := range k.PersistList() {
		out = append(out, ParsePersist(s))
	}
	return out
}

// maxPersist is how many paths a node may keep.
const maxPersist = 64

// notKept lists directories that cannot be kept: system directories, directories of the image, and those that get files
// at each boot.
var notKept = []string{
	"/",
	"/bin",
	"/boot",
	"/dev",
	"/etc",
	"/lib",
	"/lib32",
	"/lib64",
	"/newroot",
	"/proc",
	"/run",
	"/sbin",
	"/sys",
	"/tmp",
	"/usr",
	"/var",
	"/var/lib",
	"/var/run",
	"/var/tmp",
}

// given are files that Pando writes at each boot.
var given = []string{"/etc/fstab", "/etc/hostname", "/etc/hosts", "/etc/machine-id", "/etc/resolv.conf", "/etc/shadow"}

func validPersist(list []string) error {
	if len(list) > maxPersist {
		return fmt.Errorf("persist: %d paths; at most %d", len(list), maxPersist)
	}
	for i, s := range list {
		k := ParsePersist(s)
		if err := validPlace(k.Path); err != nil {
			return fmt.Errorf("persist %q: %w", s, err)
		}
		if slices.Contains(notKept, k.Path) {
			return fmt.Errorf("persist %q: the image and the system have it; name directories in it", s)
		}
		if slices.Contains(given, k.Path) {
			return fmt.Errorf(
				"persist %q: Pando puts it in place at each boot; `pando config set` gives a node one of its own",
				s,
			)
		}
		for _, other := range list[:i] {
			if o := ParsePersist(other).Path; k.Path == o || within(k.Path, o) || within(o, k.Path) {
				return fmt.Errorf("persist: %s and %s are in one another", o, k.Path)
			}
		}
	}
	return nil
}

// PersistList returns the directories and files that are kept, as declared.
func (k Keeping) PersistList() []string { return ValueOf(k.Persist) }
