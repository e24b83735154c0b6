package fleet

import (
	"slices"
	"strings"
	"unicode"
)

// fillerWords are what firmware writes around or in the place of a number that nobody filled in.
var fillerWords = []string{
	"asset", "base", "baseboard", "board", "by", "chassis", "config", "default", "defaultstring", "define", "empty",
	"filled", "invalid", "manufacturer", "name", "none", "null", "number", "oem", "product", "sample", "serial",
	"sernum", "sn", "string", "system", "systemserial", "tag", "test", "type", "undefined", "unknown", "version",
}

// TellingSerial reports whether a serial number, or a UUID, tells a machine from others. Many makers leave it empty,
// or the same for all. It goes by the form of such values, because each maker has its own.
func TellingSerial(s string) bool {
	if len(s) > 128 {
		return false
	}
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !isDigit(r) })
	kept, least := "", 2
	for _, w := range words {
		rest := withoutFiller(w)
		if rest != w {
			least = 4 // beside such words a short number is none either
		}
		kept += rest
	}
	return len(strings.TrimLeft(kept, "0")) >= least && !isWord(kept) && !repeats(kept) && !counts(kept) &&
		!mostlyZero(kept)
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

// withoutFiller is a word without the letters at its beginning, where these are filler.
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

// isWord reports whether s is words of a language: serial numbers without a digit have no vowels, so that they make
// none.
func isWord(s string) bool {
	return !strings.ContainsFunc(s, isDigit) && (len(s) < 5 || strings.ContainsAny(s, "aeiou"))
}

// repeats reports whether s has hardly any different characters, or is one piece over and over.
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

// counts reports whether s is a row such as 0123456789, but for a few characters. Zeros in front count for nothing:
// small makers number their machines so.
func counts(s string) bool {
	s = strings.TrimLeft(s, "0")
	const digits = "0123456789abcdef"
	steps := 0
	for i := 1; i < len(s); i++ {
		a, b := strings.IndexByte(digits, s[i-1]), strings.IndexByte(digits, s[i])
		d := b - a
		if a < 0 || b < 0 { // letters beyond f go on as the alphabet does
			d = int(s[i]) - int(s[i-1])
		}
		if d == 0 || d == 1 || d == -1 || s[i-1] == '9' && s[i] == '0' || s[i-1] == '0' && s[i] == '9' {
			steps++
		}
	}
	return len(s) >= 5 && steps*4 >= (len(s)-1)*3
}

// mostlyZero reports whether s has the length of a UUID, and nothing but some single digits in it. One that is zeros
// and a MAC address is of one machine.
func mostlyZero(s string) bool {
	const uuid, mac = 32, 12
	return len(s) == uuid && strings.Count(s, "0") >= 20 && strings.Count(s[uuid-mac:], "0") >= mac*2/3
}
