package testkit

import (
	"fmt"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Display is a simple terminal for tests of live tables: it wraps and scrolls, and records that it had to.
type Display struct {
	width, height     int
	cells             [][]rune
	x, y              int
	Wrapped, Scrolled bool
}

// NewDisplay returns an empty terminal.
func NewDisplay(width, height int) *Display {
	d := &Display{width: width, height: height}
	for range height {
		d.cells = append(d.cells, nil)
	}
	return d
}

// Write processes the output of a program.
func (d *Display) Write(s string) {
	for len(s) > 0 {
		if rest, ok := strings.CutPrefix(s, "\x1b["); ok {
			end := strings.IndexFunc(rest, func(r rune) bool { return r >= '@' && r <= '~' })
			d.control(rest[:end+1])
			s = rest[end+1:]
			continue
		}
		r := []rune(s)[0]
		s = s[len(string(r)):]
		switch r {
		case '\r':
			d.x = 0
		case '\n':
			d.down()
		default:
			d.put(r)
		}
	}
}

func (d *Display) down() {
	if d.y++; d.y == d.height {
		d.y, d.Scrolled = d.height-1, true
		d.cells = append(d.cells[1:], nil)
	}
}

func (d *Display) put(r rune) {
	w := runewidth.RuneWidth(r)
	if d.x+w > d.width {
		d.Wrapped, d.x = true, 0
		d.down()
	}
	for len(d.cells[d.y]) <= d.x {
		d.cells[d.y] = append(d.cells[d.y], ' ')
	}
	d.cells[d.y] = append(d.cells[d.y][:d.x], r)
	d.x += w
}

func (d *Display) control(s string) {
	switch s {
	case "H":
		d.x, d.y = 0, 0
	case "K": // in the last column a terminal still stands on it
		if at := min(d.x, d.width-1); at < len(d.cells[d.y]) {
			d.cells[d.y] = d.cells[d.y][:at]
		}
	case "J":
		for y := d.y; y < d.height; y++ {
			if y > d.y || d.x == 0 {
				d.cells[y] = nil
			}
		}
	case "2J":
		for y := range d.cells {
			d.cells[y] = nil
		}
	}
}

// String returns the text on the terminal.
func (d *Display) String() string {
	var b strings.Builder
	for _, line := range d.cells {
		fmt.Fprintln(&b, strings.TrimRight(string(line), " "))
	}
	return b.String()
}
