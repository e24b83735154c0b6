package fleet

import (
	"slices"
	"strings"
	"unicode"
)

// fillerWords are words that firmware has around or instead of a serial number that was never set.
var fillerWords = []string{
	"asset", "base", "baseboard", "board", "by", "chassis", "config", "default", "defaultstring", "define", "empty",
	"filled", "invalid", "manufacturer", "name", "none", "null", "number", "oem", "product", "sample", "serial",
	"sernum", "sn", "string", "system", "systemserial", "tag", "test", "type", "undefined", "unknown", "version",
}

// TellingSerial reports whether a serial number or UUID identifies a machine. Many makers leave it empty, or use one
// value for all machines. The check looks at the form of such values, because each maker has its own.
func TellingSerial(s string) bool {
	if len(s) > 128 {
		return false
	}
	lower := strings.ToLower(s)
	rest := withoutVersion(lower)
	words := strings.FieldsFunc(rest, func(r rune) bool { return !unicode.IsLetter(r) && !isDigit(r) })
	kept, least := "", 2
	if rest != lower {
		least = 4 // beside a version a shorter number is no serial number either
	}
	for _, w := range words {
		rest := withoutFiller(w)
		if rest != w {
			least = 4 // beside a filler word a shorter number is no serial number either
		}
		kept += rest
	}
	return len(strings.TrimLeft(kept, "0")) >= least && !isWord(kept) && !repeats(kept) && !counts(kept) &&
		!countsShort(kept) && !mostlyZero(kept)
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

// withoutFiller removes the letters at the beginning of a word if they are a filler word.
func withoutFiller(word string) string {
	digits := strings.IndexFunc(word, isDigit)
	if digits < 0 {
		digits = len(word)
	}
	if slices.Contains(fillerWords, word[:digits]) {
		return word[digits:]
	}
	return word
}

// isWord reports whether s looks like words of a language. Serial numbers without digits have no vowels, to avoid that.
func isWord(s string) bool {
	return !strings.ContainsFunc(s, isDigit) && (len(s) < 5 || strings.ContainsAny(s, "aeiou"))
}

// repeats reports whether s has at most two different characters, or repeats one piece.
func repeats(s string) bool {
	runes := []rune(s)
	slices.Sort(runes)
	if different := len(slices.Compact(runes)); different == 1 || different == 2 && len(s) >= 6 {
		return true
	}
	for n := 1; n <= len(s)/2 && len(s) >= 6; n++ {
		if len(s)%n == 0 && strings.Repeat(s[:n], len(s)/n) == s {
			return true
		}
	}
	return false
}

// counts reports whether s is, for the most part, a sequence such as 0123456789. Leading zeros do not count: small
// makers have such serial numbers.
func counts(s string) bool {
	s = strings.TrimLeft(s, "0")
	const digits = "0123456789abcdef"
	steps := 0
	for i := 1; i < len(s); i++ {
		a, b := strings.IndexByte(digits, s[i-1]), strings.IndexByte(digits, s[i])
		d := b - a
		if a < 0 || b < 0 { // letters after f continue as in the alphabet
			d = int(s[i]) - int(s[i-1])
		}
		if d == 0 || d == 1 || d == -1 || s[i-1] == '9' && s[i] == '0' || s[i-1] == '0' && s[i] == '9' {
			steps++
		}
	}
	return len(s) >= 5 && steps*4 >= (len(s)-1)*3
}

// mostlyZero reports whether s has the length of a UUID and is zero except for a few digits. A UUID of zeros and a MAC
// address at its end identifies a machine.
func mostlyZero(s string) bool {
	const uuid, mac = 32, 12
	return len(s) == uuid && strings.Count(s, "0") >= 20 && strings.Count(s[uuid-mac:], "0") >= mac*2/3
}

// withoutVersion removes the version of a board, such as "v1.0" or "rev 2". A string that is only numbers with dots
// between them is a version, too.
func withoutVersion(s string) string {
	words := strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !isDigit(r) && r != '.' })
	kept := make([]string, 0, len(words))
	for i := 0; i < len(words); i++ {
		letters := len(words[i]) - len(strings.TrimLeftFunc(words[i], unicode.IsLetter))
		number := strings.Trim(words[i][letters:], ".")
		switch words[i][:letters] {
		case "v", "ver", "rev", "version":
			if number == "" && i+1 < len(words) && isVersion(words[i+1], 1) {
				i++
				continue
			}
			if isVersion(number, 1) {
				continue
			}
		case "":
			if len(words) == 1 && isVersion(number, 2) {
				continue
			}
		}
		kept = append(kept, words[i])
	}
	if len(kept) == len(words) {
		return s
	}
	return strings.Join(kept, " ")
}

// isVersion reports whether s is at least this many numbers of one or two digits, with dots between them.
func isVersion(s string, least int) bool {
	parts := strings.Split(s, ".")
	for _, p := range parts {
		if len(p) < 1 || len(p) > 2 || strings.Trim(p, "0123456789") != "" {
			return false
		}
	}
	return len(parts) >= least
}

// countsShort reports whether s is only digits that go up or down by one, such as 123 or 0123. A number with more
// leading zeros is one that a small maker has given.
func countsShort(s string) bool {
	s = strings.TrimPrefix(s, "0")
	for i := 2; i < len(s); i++ {
		if d := int(s[i]) - int(s[i-1]); d != int(s[i-1])-int(s[i-2]) || d != 1 && d != -1 {
			return false
		}
	}
	return len(s) >= 3 && strings.Trim(s, "0123456789") == ""
}
