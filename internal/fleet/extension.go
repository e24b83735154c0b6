package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Extension is an image version that is mounted over the root of a node.
type Extension struct {
	Name    string `json:"name"`
	Version Digest `json:"version"`
}

// Short returns the extension for people: name and short digest.
func (e Extension) Short() string { return e.Name + " " + e.Version.Short() }

// MaxExtensions is how many extensions a node may have. Each has its own block device and daemon.
const MaxExtensions = 8

// ExtensionList returns the extensions as declared.
func (k Keeping) ExtensionList() []string { return ValueOf(k.Extensions) }

func validExtensions(refs []string) error {
	if len(refs) > MaxExtensions {
		return fmt.Errorf("%d extensions: a node has %d at the most; put some into one", len(refs), MaxExtensions)
	}
	var names []string
	for _, r := range refs {
		name, _, _, err := Ref(r).Split()
		if err == nil && !Ref(r).Whole() {
			err = fmt.Errorf("extension %q: write all digits of the version, or a tag", r)
		}
		if err != nil {
			return fmt.Errorf("extension: %w", err)
		}
		if slices.Contains(names, name) {
			return fmt.Errorf("extension %s is given twice", name)
		}
		names = append(names, name)
	}
	return nil
}

// ExtensionsKey identifies a list of extensions, whatever its order. The key of an empty list is "none".
func ExtensionsKey(list []Extension) string {
	if len(list) == 0 {
		return "none"
	}
	lines := make([]string, len(list))
	for i, e := range list {
		lines[i] = fmt.Sprintf("%s %s\n", e.Name, e.Version)
	}
	slices.Sort(lines) // no letter of a name sorts before the space
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:8])
}

// Lacking returns the extensions of list that other does not have, or has in another version.
func Lacking(list, other []Extension) []Extension {
	return slices.DeleteFunc(slices.Clone(list), func(e Extension) bool { return slices.Contains(other, e) })
}
