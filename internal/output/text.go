package output

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// steers reports whether a character makes a terminal do something else than show it: C0 and C1 controls with ESC,
// marks of writing direction, and what else is there without being seen.
func steers(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Plain is text as a terminal or a page may get it: much of what is shown was said by machines that nobody has to
// trust. Line breaks and tabs stay.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if steers(r) && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// OneLine is Plain without line breaks and tabs, so that a text makes no line and no column of its own.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, Plain(s))
}

// Fprintf is fmt.Fprintf whose texts and errors stay on one line each.
func Fprintf(w io.Writer, format string, args ...any) error {
	clean := make([]any, len(args))
	for i, v := range args {
		clean[i] = v
		switch k := reflect.ValueOf(v).Kind(); {
		case k >= reflect.Bool && k <= reflect.Complex128: // %d is for these
		case k != reflect.Invalid:
			clean[i] = OneLine(fmt.Sprint(v))
		}
	}
	_, err := fmt.Fprintf(w, format, clean...)
	return err
}

// Writer writes text as Plain does. All that commands print goes through one.
type Writer struct {
	to   io.Writer
	part []byte // the beginning of a character whose end was not written yet
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write writes b without what would steer a terminal.
func (w *Writer) Write(b []byte) (int, error) {
	all := append(w.part, b...)
	whole := len(all)
	for i := len(all) - 1; i >= max(0, len(all)-utf8.UTFMax); i-- {
		if utf8.RuneStart(all[i]) {
			if !utf8.FullRune(all[i:]) {
				whole = i
			}
			break
		}
	}
	w.part = append([]byte(nil), all[whole:]...)
	if _, err := io.WriteString(w.to, Plain(string(all[:whole]))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Unwrap is the writer below, for what draws on a terminal and for content that is no text for people.
func (w *Writer) Unwrap() io.Writer { return w.to }

// PlainJSON is JSON in which what would steer a terminal is written as an escape: the same value.
func PlainJSON(b []byte) []byte {
	var out strings.Builder
	for _, r := range string(b) {
		switch {
		case !steers(r) || r == '\n':
			out.WriteRune(r)
		case r > 0xffff:
			const first, bits = 0x10000, 10
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+(r-first)>>bits, 0xdc00+(r-first)&(1<<bits-1))
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return []byte(out.String())
}
