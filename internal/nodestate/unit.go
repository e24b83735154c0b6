package nodestate

import (
	"fmt"
	"strings"

	"pando/internal/fleet"
)

// Where units of one boot are, and the files that they use.
const (
	unitDir = "/run/systemd/system/"
	ownDir  = "/run/pando/"
)

// unitName is the name that systemd wants of a unit for a path (systemd.unit(5), string escaping for inclusion in
// unit names).
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

// file is a file of one boot.
func file(path, text string) fleet.File {
	return fleet.File{Path: path, Mode: 0o644, Data: []byte(text)}
}

// wanted is a unit, and the link by which a target wants it.
func wanted(name, by, text string) []fleet.File {
	return []fleet.File{file(unitDir+name, text), {Path: unitDir + by + ".wants/" + name, Target: "../" + name}}
}
