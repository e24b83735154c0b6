package fleet

import (
	"fmt"
	"slices"
	"strings"
)

// Role is what an operator may do.
type Role string

// The roles. Each role includes the ones before it.
const (
	Viewer   Role = "viewer"   // read everything except secrets
	Operator Role = "operator" // change nodes, groups, images, rollouts
	Admin    Role = "admin"    // also manage access: users, tokens, keys, and the policy for unknown machines
)

var roles = []Role{Viewer, Operator, Admin}

// ParseRole parses a role's name.
func ParseRole(s string) (Role, error) {
	if !slices.Contains(roles, Role(s)) {
		return "", fmt.Errorf("role %q: there are %s, %s and %s", s, Viewer, Operator, Admin)
	}
	return Role(s), nil
}

// May reports whether role r includes the role need. An empty role includes none.
func (r Role) May(need Role) bool {
	have, want := slices.Index(roles, r), slices.Index(roles, need)
	return have >= 0 && want >= 0 && have >= want
}

// maxPerson is the length of a person's name.
const maxPerson = 64

// ValidPerson checks a login name: a name or a mail address, without spaces.
func ValidPerson(name string) error {
	const marks = ".-_@+"
	bad := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(marks, r))
	}
	if name == "" || len(name) > maxPerson || strings.ContainsFunc(name, bad) ||
		strings.ContainsRune(marks, rune(name[0])) {
		return fmt.Errorf(
			"user %q: a name begins with a letter or digit and has up to %d letters, digits and %s",
			name,
			maxPerson,
			marks,
		)
	}
	return nil
}
