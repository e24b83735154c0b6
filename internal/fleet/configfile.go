package fleet

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// ConfigFile is a config file as it was declared. It is rendered for each of its nodes.
type ConfigFile struct {
	For      Scope  `json:"for"`
	Path     string `json:"path"`               // absolute, in the node's root
	Content  []byte `json:"content,omitempty"`  // a template, unless Verbatim
	Verbatim bool   `json:"verbatim,omitempty"` // the content is sent unchanged
	Mode     uint32 `json:"mode,omitempty"`     // permission bits; 0: 0644, or 0600 if the file contains a secret
	Owner    string `json:"owner,omitempty"`    // "user" or "user:group", names from the image or numbers; "": root
	// command that the node's shell runs after the file changed on a running node
	Run     string    `json:"run,omitempty"`
	Changed time.Time `json:"changed,omitzero"`
}

// Bounds of config files.
const (
	MaxConfigFile  = 256 << 10 // bytes of one file, as declared and as rendered
	MaxConfigFiles = 1 << 20   // bytes of all files of a node
	maxConfigPath  = 255
	maxConfigRun   = 1024
)

// notOnRoot are directories that other file systems are mounted on: a config file on the root would be hidden there.
var notOnRoot = []string{"/dev", "/proc", "/run", "/sys", "/tmp"}

// ValidConfigPath checks the path of a config file: absolute, without "..", and naming a file.
func ValidConfigPath(p string) error {
	if !strings.HasPrefix(p, "/") || path.Clean(p) != p || p == "/" || len(p) > maxConfigPath || !printable(p) {
		return fmt.Errorf(
			"config file %q: use an absolute path of printable characters without . and .., at most %d long",
			p,
			maxConfigPath,
		)
	}
	for _, dir := range notOnRoot {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			return fmt.Errorf("config file %s: %s is no part of the root: another file system is mounted there", p, dir)
		}
	}
	return nil
}

var accountName = Spelling{Capitals: true, Inner: "._-", End: true, Max: 32}

// ValidOwner checks the form of an owner. Only the image knows whether the user exists.
func ValidOwner(owner string) error {
	user, group, both := strings.Cut(owner, ":")
	for _, name := range []string{user, group} {
		if name == "" && (owner == "" || !both && name == group) {
			continue
		}
		if !accountName.Allows(strings.TrimPrefix(name, "_")) {
			return fmt.Errorf("owner %q: use user or user:group, names of the image or numbers", owner)
		}
	}
	return nil
}

// Validate returns an error for the first invalid field of a config file. It does not parse the template.
func (f ConfigFile) Validate() error {
	if err := f.For.Validate(); err != nil {
		return err
	}
	if err := ValidConfigPath(f.Path); err != nil {
		return err
	}
	if err := ValidOwner(f.Owner); err != nil {
		return fmt.Errorf("config file %s: %w", f.Path, err)
	}
	switch {
	case len(f.Content) > MaxConfigFile:
		return fmt.Errorf(
			"config file %s has %d bytes: at most %d are sent at each boot; put it into the image",
			f.Path,
			len(f.Content),
			MaxConfigFile,
		)
	case f.Mode > 0o7777:
		return fmt.Errorf("config file %s: mode %o: use permission bits such as 0644", f.Path, f.Mode)
	case len(f.Run) > maxConfigRun || strings.ContainsAny(f.Run, "\r\n\x00"):
		return fmt.Errorf(
			"config file %s: the command to run is one line of at most %d characters",
			f.Path,
			maxConfigRun,
		)
	}
	return nil
}

// Compare orders config files by path, and those of one path by precedence, the winner last.
func (f ConfigFile) Compare(other ConfigFile) int {
	return cmp.Or(strings.Compare(f.Path, other.Path), f.For.Compare(other.For))
}

// ConfigFilesOf returns the config files of a node, by path. For one path the node's own file wins over one of its
// classes, and that over its group's. Of two classes the later name wins.
func ConfigFilesOf(n Node, classes []Class, all []ConfigFile) []ConfigFile {
	all = slices.Clone(all)
	slices.SortStableFunc(all, ConfigFile.Compare)
	var out []ConfigFile
	for _, f := range all {
		if !f.For.Covers(n, classes) {
			continue
		}
		if last := len(out) - 1; last >= 0 && out[last].Path == f.Path {
			out[last] = f
			continue
		}
		out = append(out, f)
	}
	return out
}
