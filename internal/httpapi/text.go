package httpapi

import "strings"

// MaxMessage is the longest message, in bytes, that a node may put into an event.
const MaxMessage = 2000

// Clip cuts a text to at most n bytes without splitting a character. It removes control characters, which would disturb
// a terminal.
func Clip(s string, n int) string {
	s = strings.ToValidUTF8(s[:min(len(s), n)], "")
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || 0x80 <= r && r < 0xa0 {
			return -1
		}
		return r
	}, s)
}

// ClipList cuts a list to n texts of at most 256 bytes each. It changes the list.
func ClipList(list []string, n int) []string {
	list = list[:min(len(list), n)]
	for i := range list {
		list[i] = Clip(list[i], 256)
	}
	return list
}
