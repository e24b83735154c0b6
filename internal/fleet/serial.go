package fleet

import "strings"

// noSerials are placeholders of firmware for a missing serial number, in lower case.
var noSerials = []string{
	"none",
	"default string",
	"to be filled",
	"system serial",
	"chassis serial",
	"base board serial",
	"not specified",
	"not applicable",
	"n/a",
	"unknown",
	"invalid",
	"oem",
	"o.e.m",
	"123456789",
	"empty",
}

// TellingSerial reports whether a serial number tells a machine from others: many makers leave it empty, or the
// same for all.
func TellingSerial(s string) bool {
	s = strings.ToLower(strings.TrimSpace(s))
	if len(s) < 2 || len(s) > 128 || strings.Trim(s, s[:1]) == "" {
		return false
	}
	for _, no := range noSerials {
		if strings.Contains(s, no) && (len(no) > 4 || s == no) {
			return false
		}
	}
	return true
}
