package terminal

import (
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"pando/internal/output"
)

// Of returns the terminal that w is or writes to, or nil.
func Of(w any) *os.File {
	if out, ok := w.(io.Writer); ok {
		w = Raw(out)
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// Raw is what w writes to, for a program that has the terminal as its own.
func Raw(w io.Writer) io.Writer {
	if inner, ok := w.(interface{ Unwrap() io.Writer }); ok {
		return inner.Unwrap()
	}
	return w
}

// Content is where the bytes of a file go: unchanged into a pipe or a file, as harmless text to a terminal.
func Content(w io.Writer) io.Writer {
	if Of(w) != nil {
		return w
	}
	return Raw(w)
}

// Screen returns the terminal that w is if something can be drawn on it in place, or nil.
func Screen(w any) *os.File {
	if os.Getenv("TERM") == "dumb" {
		return nil
	}
	return Of(w)
}

// What a terminal is told; every terminal of the last thirty years knows these.
const (
	HideCursor  = "\x1b[?25l"
	ShowCursor  = "\x1b[?25h"
	CursorHome  = "\x1b[H"
	ClearScreen = "\x1b[2J"
	ClearLine   = "\x1b[K"
	ClearBelow  = "\x1b[J"
)

// Size is the columns and lines of a terminal, 80 by 24 where it does not tell.
func Size(tty *os.File) (width, height int) {
	width, height, err := term.GetSize(int(tty.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// Lines is lines for a terminal, at most height of them, each in at most width columns. A line is cleared before it
// is written: after its last column a terminal stands on that column, and would clear it.
func Lines(lines []string, width, height int) string {
	var b strings.Builder
	for _, s := range lines[:max(0, min(len(lines), height-1))] {
		b.WriteString(ClearLine + Cut(s, width) + "\r\n")
	}
	return b.String()
}

// Cut is text on one line in at most n columns of a terminal; some letters take two.
func Cut(s string, n int) string {
	s = output.OneLine(s)
	if runewidth.StringWidth(s) <= n {
		return s
	}
	return runewidth.Truncate(s, max(0, n), "~")
}

// DrawEvery is how often a table on the screen is drawn anew.
const DrawEvery = time.Second
