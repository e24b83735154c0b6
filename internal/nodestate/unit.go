package nodestate

import (
	"fmt"
	"strings"

	"pando/internal/fleet"
)

// Directories of this boot's units and of their files.
const (
	unitDir = "/run/systemd/system/"
	ownDir  = "/run/pando/"
)

// unitName returns the name of the unit for a path (systemd.unit(5), string escaping for inclusion in unit names).
// kind is its suffix, ".mount".
func unitName(path, kind string) string {
	var b strings.Builder
	for i, c := range []byte(strings.Trim(path, "/")) {
		switch {
		case c == '/':
			b.WriteByte('-')
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == ':', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String() + kind
}

// file returns a file with mode 0644.
func file(path, text string) fleet.File {
	return fleet.File{Path: path, Mode: 0o644, Data: []byte(text)}
}

// wanted returns a unit, and a link in the .wants directory of the target by.
func wanted(name, by, text string) []fleet.File {
	return []fleet.File{file(unitDir+name, text), {Path: unitDir + by + ".wants/" + name, Target: "../" + name}}
}
