package fleet

import "strings"

// Spelling defines the allowed characters of a name: lower-case letters, digits, and others. It is not a regular
// expression because package regexp is large, and the node's program, which checks names too, is sent with every boot.
type Spelling struct {
	Capitals bool   // A to Z are letters, too
	Inner    string // further allowed characters, but not at the start
	End      bool   // Inner is allowed at the end too
	Max      int    // bytes; a name has at least one
}

// Allows reports whether s has only allowed characters.
func (p Spelling) Allows(s string) bool {
	if s == "" || len(s) > p.Max || !p.letter(s[0]) || !p.End && !p.letter(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !p.letter(s[i]) && strings.IndexByte(p.Inner, s[i]) < 0 {
			return false
		}
	}
	return true
}

func (p Spelling) letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || p.Capitals && c >= 'A' && c <= 'Z'
}

// isNumber reports whether s is a whole number from 1, of at most the given number of digits, without leading zeros.
func isNumber(s string, digits int) bool {
	if s == "" || len(s) > digits || s[0] == '0' {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
