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

// Raw returns the writer below w, for a program that controls the terminal itself.
func Raw(w io.Writer) io.Writer {
	if inner, ok := w.(interface{ Unwrap() io.Writer }); ok {
		return inner.Unwrap()
	}
	return w
}

// Content returns a writer for the content of a file: unchanged into a pipe or file, cleaned to a terminal.
func Content(w io.Writer) io.Writer {
	if Of(w) != nil {
		return w
	}
	return Raw(w)
}

// Screen returns the terminal that w is, if tables can be redrawn on it in place, or nil.
func Screen(w any) *os.File {
	if os.Getenv("TERM") == "dumb" {
		return nil
	}
	return Of(w)
}

// Control sequences that every terminal understands.
const (
	HideCursor  = "\x1b[?25l"
	ShowCursor  = "\x1b[?25h"
	CursorHome  = "\x1b[H"
	ClearScreen = "\x1b[2J"
	ClearLine   = "\x1b[K"
	ClearBelow  = "\x1b[J"
)

// Size returns the columns and lines of a terminal, 80 by 24 if they are unknown.
func Size(tty *os.File) (width, height int) {
	width, height, err := term.GetSize(int(tty.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// Lines returns lines for a terminal: at most height-1, each at most width columns wide. A line is cleared before it is
// written: after writing its last column the cursor stays on that column, and clearing would erase it.
func Lines(lines []string, width, height int) string {
	var b strings.Builder
	for _, s := range lines[:max(0, min(len(lines), height-1))] {
		b.WriteString(ClearLine + Cut(s, width) + "\r\n")
	}
	return b.String()
}

// Cut cuts text to one line of at most n columns. Some characters take two columns.
func Cut(s string, n int) string {
	s = output.OneLine(s)
	if runewidth.StringWidth(s) <= n {
		return s
	}
	return runewidth.Truncate(s, max(0, n), "~")
}

// DrawEvery is how often a table on the screen is redrawn.
const DrawEvery = time.Second
