package output

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// steers reports whether a character would control a terminal instead of being shown: C0 and C1 controls including ESC,
// marks of writing direction, and other invisible characters.
func steers(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Plain removes from text what would control a terminal or page, except line breaks and tabs. Much of what is shown
// comes from machines that need not be trusted.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if steers(r) && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// OneLine is Plain, but also replaces line breaks and tabs, so that a text cannot add lines or columns.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, Plain(s))
}

// Fprintf is fmt.Fprintf, but each text and error among args stays on one line.
func Fprintf(w io.Writer, format string, args ...any) error {
	clean := make([]any, len(args))
	for i, v := range args {
		clean[i] = v
		switch k := reflect.ValueOf(v).Kind(); {
		case k >= reflect.Bool && k <= reflect.Complex128: // %d formats these
		case k != reflect.Invalid:
			clean[i] = OneLine(fmt.Sprint(v))
		}
	}
	_, err := fmt.Fprintf(w, format, clean...)
	return err
}

// Writer cleans text like Plain. All output of commands passes through a Writer.
type Writer struct {
	to   io.Writer
	part []byte // an incomplete character at the end of the last write
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write writes b without characters that would control a terminal.
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

// Unwrap returns the writer below, for programs that draw on the terminal and for content that is not text.
func (w *Writer) Unwrap() io.Writer { return w.to }

// PlainJSON writes characters that would control a terminal as escapes. The JSON value stays the same.
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
