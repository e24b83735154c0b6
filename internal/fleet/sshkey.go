package fleet

import (
	"errors"
	"fmt"
	"strings"
)

// maxKeyLine bounds a line of authorized_keys.
const maxKeyLine = 16 << 10

// ValidKeyLine checks a line of authorized_keys as sshd(8) describes it: [OPTIONS] TYPE KEY [COMMENT], or a comment, or
// nothing. It checks the form only.
func ValidKeyLine(line string) error {
	line = strings.TrimSpace(line)
	if strings.Contains(line, "PRIVATE KEY") {
		return errors.New("that is a private key, which stays with its owner: give the public one, in the file " +
			"that ends in .pub")
	}
	if len(line) > maxKeyLine || !printableLine(line) || !isComment(line, "#") && !keyLine(line) {
		return fmt.Errorf(
			"authorized key %.40q: use one line of an OpenSSH public key file (ssh-ed25519 AAAA... name)",
			line,
		)
	}
	return nil
}

// printableLine reports whether a line has no control characters but tabs.
func printableLine(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

func keyLine(line string) bool {
	if publicKey(line) {
		return true
	}
	n := keyOptions(line)
	return n > 0 && publicKey(strings.TrimLeft(line[n:], " \t"))
}

// publicKey reports whether a line begins with the type of a key and a key in base64. The first bytes of a key are the
// length of its type.
func publicKey(line string) bool {
	f := strings.Fields(line)
	if len(f) < 2 {
		return false
	}
	kind := strings.TrimPrefix(f[0], "sk-")
	if !strings.HasPrefix(kind, "ssh-") && !strings.HasPrefix(kind, "ecdsa-") ||
		strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz0123456789@.-") != "" {
		return false
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	return strings.HasPrefix(f[1], "AAAA") && strings.Trim(strings.TrimRight(f[1], "="), alphabet) == ""
}

// keyOptions returns the length of the options before a key, zero if there are none: names with commas between them,
// some with ="VALUE". In a value \" is a quote.
func keyOptions(line string) int {
	name := true // the next option has no character yet
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == ' ' || c == '\t':
			if name {
				return 0
			}
			return i
		case c == ',':
			if name {
				return 0
			}
			name = true
		case c == '=' && !name:
			if i = quotedEnd(line, i+1); i < 0 {
				return 0
			}
		case c == '-' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z':
			name = false
		default:
			return 0
		}
	}
	return 0
}

// quotedEnd returns the index of the quote that ends the quoted text at line[at:], -1 if there is none.
func quotedEnd(line string, at int) int {
	if at >= len(line) || line[at] != '"' {
		return -1
	}
	for i := at + 1; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// CutUserKey splits a line "NAME KEY" of the keys of users.
func CutUserKey(line string) (name, key string) {
	line = strings.TrimSpace(line)
	i := strings.IndexAny(line, " \t")
	if i < 0 {
		return line, ""
	}
	return line[:i], strings.TrimLeft(line[i:], " \t")
}
