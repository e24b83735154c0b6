package fleetfile

import (
	"errors"
	"fmt"
	"strings"
)

// Error returns what is wrong with a file, and where.
type Error struct {
	File   string
	Line   int    // 0: unknown
	Column string // of a table: its name; of YAML: "" or its number
	Text   string
}

func (e *Error) Error() string {
	at := e.File
	if e.Line > 0 {
		at += fmt.Sprintf(":%d", e.Line)
	}
	if e.Column != "" {
		at += ": column " + e.Column
	}
	return at + ": " + e.Text
}

// Errors are all that is wrong with a file.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// maxErrors bounds how many errors are told of one file.
const maxErrors = 20

// problems collects errors.
type problems struct {
	file string
	list Errors
}

func (p *problems) add(line int, column, format string, args ...any) {
	p.list = append(p.list, &Error{p.file, line, column, fmt.Sprintf(format, args...)})
}

// full reports whether enough was said.
func (p *problems) full() bool { return len(p.list) >= maxErrors }

func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	return p.list[:min(len(p.list), maxErrors)]
}

// keep adds an error of a function that reads one value.
func (p *problems) keep(err error) {
	var many Errors
	var one *Error
	switch {
	case errors.As(err, &many):
		p.list = append(p.list, many...)
	case errors.As(err, &one):
		p.list = append(p.list, one)
	case err != nil:
		p.add(0, "", "%v", err)
	}
}
