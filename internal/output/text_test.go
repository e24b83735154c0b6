package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestWriterIsPlain: characters that control a terminal are removed, however the text is split into writes; letters of
// all scripts stay.
func TestWriterIsPlain(t *testing.T) {
	const text = "\x1b]0;x\x07a\u009bb\u202ec\r\nKöln 磁盘 \x9b\xff\td"
	const want = " ]0;x a b c \nKöln 磁盘 \uFFFD\td"
	for size := 1; size <= len(text); size++ {
		var b bytes.Buffer
		w := NewWriter(&b)
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if wrote, err := w.Write([]byte(rest[:n])); wrote != n || err != nil {
				t.Fatalf("%d bytes of %d, %v", wrote, n, err)
			}
			rest = rest[n:]
		}
		if got := strings.ReplaceAll(b.String(), "\uFFFD\uFFFD", "\uFFFD"); got != want {
			t.Errorf("in writes of %d bytes: %q, want %q", size, got, want)
		}
	}
}

// TestTextMakesNoLine: a text cannot add a line or column to tables, fields and messages.
func TestTextMakesNoLine(t *testing.T) {
	const bad = "a\nb\tc\u2028d"
	var b bytes.Buffer
	table := NewTable(&b, "X", "Y")
	table.Row(bad, "1")
	table.Flush()
	Fields(&b, "name", bad)
	if err := Fprintf(&b, "%s: %v %d\n", bad, errors.New(bad), 7); err != nil {
		t.Fatal(err)
	}
	if want := "X        Y\na b c d  1\nname:  a b c d\na b c d: a b c d 7\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// TestJSONIsPlain: the JSON value is unchanged, and contains no character that controls a terminal.
func TestJSONIsPlain(t *testing.T) {
	const bad = "\x1b\x7f\u009b\u202e\U000E0041 é"
	var b bytes.Buffer
	if err := JSON(NewWriter(&b), bad); err != nil {
		t.Fatal(err)
	}
	var back string
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back != bad {
		t.Errorf("%q comes back as %q, %v", b.String(), back, err)
	}
	if Plain(b.String()) != b.String() {
		t.Errorf("%q", b.String())
	}
}
