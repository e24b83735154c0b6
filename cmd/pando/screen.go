package main

import (
	"os"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// terminal returns the terminal that w is, or nil.
func terminal(w any) *os.File {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// screen returns the terminal that w is if something can be drawn on it in place, or nil.
func screen(w any) *os.File {
	if os.Getenv("TERM") == "dumb" {
		return nil
	}
	return terminal(w)
}

// What a terminal is told; every terminal of the last thirty years knows these.
const (
	hideCursor  = "\x1b[?25l"
	showCursor  = "\x1b[?25h"
	cursorHome  = "\x1b[H"
	clearScreen = "\x1b[2J"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// terminalSize is the columns and lines of a terminal, 80 by 24 where it does not tell.
func terminalSize(tty *os.File) (width, height int) {
	width, height, err := term.GetSize(int(tty.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// drawn is lines for a terminal, at most height of them, each in at most width columns. A line is cleared before it
// is written: after its last column a terminal stands on that column, and would clear it.
func drawn(lines []string, width, height int) string {
	var b strings.Builder
	for _, s := range lines[:max(0, min(len(lines), height-1))] {
		b.WriteString(clearLine + cut(s, width) + "\r\n")
	}
	return b.String()
}

// oneLine is text without line breaks and what else could steer a terminal: much of what is shown was said by nodes.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, s)
}

// cut is text on one line in at most n columns of a terminal; some letters take two.
func cut(s string, n int) string {
	s = oneLine(s)
	if runewidth.StringWidth(s) <= n {
		return s
	}
	return runewidth.Truncate(s, max(0, n), "~")
}
