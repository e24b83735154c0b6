// Package clip bounds texts that others chose, nodes above all, before they are recorded or shown.
//
// It owns nothing. Whoever takes a report calls it on each text. It must never let a control character through: what is
// recorded is shown on terminals.
package clip

import "strings"

// MaxMessage is how many bytes of a message are kept.
const MaxMessage = 2000

// Text cuts a text to n bytes at the end of a character, and drops control characters other than newline and tab.
func Text(s string, n int) string {
	s = strings.ToValidUTF8(s[:min(len(s), n)], "")
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || 0x80 <= r && r < 0xa0 {
			return -1
		}
		return r
	}, s)
}

// List cuts a list to n texts of at most 256 bytes. It changes the list.
func List(l []string, n int) []string {
	l = l[:min(len(l), n)]
	for i := range l {
		l[i] = Text(l[i], 256)
	}
	return l
}
