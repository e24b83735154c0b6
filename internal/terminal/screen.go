package terminal

import (
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// Of returns the terminal that w is, or nil.
func Of(w any) *os.File {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
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

// OneLine is text without line breaks and what else could steer a terminal: much of what is shown was said by nodes.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, s)
}

// Cut is text on one line in at most n columns of a terminal; some letters take two.
func Cut(s string, n int) string {
	s = OneLine(s)
	if runewidth.StringWidth(s) <= n {
		return s
	}
	return runewidth.Truncate(s, max(0, n), "~")
}

// DrawEvery is how often a table on the screen is drawn anew.
const DrawEvery = time.Second
