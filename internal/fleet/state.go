package fleet

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// StateKind is how the persistent directories of a node are kept.
type StateKind string

// The kinds.
const (
	StateNone      StateKind = ""
	StateNetwork   StateKind = "network"   // a directory for each node on a network file system
	StateDirectory StateKind = "directory" // a directory for each node on a file system that it mounts anyway
	StateDisk      StateKind = "disk"      // a partition of the node named StatePartition
	StateVolume    StateKind = "volume"    // a block device that the server provides for the node
)

// StatePartition is the GPT name of a partition that state may be kept on.
const StatePartition = "pando-state"

// State is where the persistent directories of a node are kept.
type State struct {
	Kind       StateKind
	FileSystem string // of a mount or disk: "nfs4", "ext4"
	What       string // source of a mount: "10.0.0.1:/srv/state"; for StateDirectory the directory
	Options    string // of a mount
	Size       int64  // of a volume, in bytes
}

// diskFileSystems are the file systems that a node can make on a disk or volume.
var diskFileSystems = []string{"ext4", "xfs"}

// ParseState parses where state is kept: "nfs SERVER:/DIR [OPTIONS]" or another type of file system to mount,
// "directory /DIR" on a file system that the node mounts anyway, "disk [ext4|xfs]", "volume SIZE [ext4|xfs]", or "" for
// nowhere.
func ParseState(s string) (State, error) {
	f := strings.Fields(s)
	if len(f) == 0 {
		return State{}, nil
	}
	if strings.ContainsAny(s, "\n\r\x00") || len(f) > 3 {
		return State{}, stateError(s)
	}
	switch kind := f[0]; {
	case kind == string(StateDisk):
		return diskState(s, State{Kind: StateDisk}, f[1:])
	case kind == string(StateVolume):
		return volumeState(s, f[1:])
	case kind == string(StateDirectory):
		if len(f) != 2 || validPlace(f[1]) != nil {
			return State{}, fmt.Errorf("state %q: want 'directory /DIR' below a mount of the node", s)
		}
		return State{Kind: StateDirectory, What: f[1]}, nil
	case len(f) < 2:
		return State{}, stateError(s)
	}
	m, err := ParseMount(f[1] + " /run/pando/state " + f[0] + " " + strings.Join(f[2:], ""))
	if err == nil { // they become words of a shell script
		for _, word := range []string{m.What, m.Options} {
			if !printable(word) || strings.ContainsAny(word, " \"'\\`$%") {
				err = errors.New("use printable characters without blanks, quotes, backslash, $ and %")
			}
		}
	}
	if err != nil {
		return State{}, fmt.Errorf("state %q: %w", s, err)
	}
	return State{Kind: StateNetwork, FileSystem: m.Type, What: m.What, Options: m.Options}, nil
}

func stateError(s string) error {
	return fmt.Errorf(
		"state %q: want 'nfs SERVER:/DIR [OPTIONS]', 'volume SIZE [ext4|xfs]', 'directory /DIR' or 'disk [ext4|xfs]'",
		s,
	)
}

// Bounds of a volume, in bytes. XFS takes no less than 300 MB.
const (
	MinVolume int64 = 512e6
	MaxVolume int64 = 64e12
)

func volumeState(s string, f []string) (State, error) {
	if len(f) == 0 {
		return State{}, fmt.Errorf("state %q: how large? 'volume 20GB'", s)
	}
	size, err := ParseSize(f[0])
	if err != nil {
		return State{}, fmt.Errorf("state %q: %w", s, err)
	}
	size &^= 4095 // whole blocks
	if size < MinVolume || size > MaxVolume {
		return State{}, fmt.Errorf("state %q: use a volume of %s to %s", s, SizeText(MinVolume), SizeText(MaxVolume))
	}
	return diskState(s, State{Kind: StateVolume, Size: size}, f[1:])
}

func diskState(s string, out State, more []string) (State, error) {
	out.FileSystem = diskFileSystems[0]
	if len(more) > 1 {
		return out, stateError(s)
	}
	for _, fs := range diskFileSystems {
		if len(more) == 1 && more[0] == fs {
			out.FileSystem, more = fs, nil
		}
	}
	if len(more) > 0 {
		return out, fmt.Errorf("state %q: it gets ext4 or xfs", s)
	}
	return out, nil
}

// systems are those of notKept below which nothing may be kept or mounted.
var systems = []string{"/boot", "/dev", "/proc", "/run", "/sys", "/var/run"}

// within reports whether a directory is somewhere below another.
func within(dir, of string) bool { return strings.HasPrefix(dir, of+"/") }

// validPlace checks a directory of a node that something is mounted on.
func validPlace(dir string) error {
	if !strings.HasPrefix(dir, "/") || path.Clean(dir) != dir || len(dir) > 255 {
		return errors.New("want an absolute path, without a slash at its end, of at most 255 characters")
	}
	if i := strings.IndexFunc(dir, func(r rune) bool { return !placeRune(r) }); i >= 0 {
		return fmt.Errorf("use letters, digits and . _ @ : - in it, not %q", dir[i:i+1])
	}
	return notSystem(dir)
}

// notSystem refuses a directory that belongs to the system.
func notSystem(dir string) error {
	for _, s := range systems {
		if dir == s || within(dir, s) {
			return fmt.Errorf("%s belongs to the system", s)
		}
	}
	return nil
}

func placeRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._@:-", r)
}

// StateText returns where state is kept, "" for nowhere.
func (k Keeping) StateText() string { return ValueOf(k.StateOn) }
