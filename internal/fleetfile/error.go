package fleetfile

import (
	"errors"
	"fmt"
	"strings"
)

// Error is one error in a file, with its position.
type Error struct {
	File   string
	Line   int    // 0: unknown
	Column string // of a table: the column's name; of YAML: its number, or ""
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

// Errors are all errors found in a file.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// maxErrors bounds how many errors of one file are reported.
const maxErrors = 20

// problems collects the errors of a file.
type problems struct {
	file  string
	list  Errors
	upper upperCase
}

// upperCase counts the names that are not in lower case, and has the first of them.
type upperCase struct {
	line, count int
	name        string
}

// lower returns a name in lower case, as it has to be. All names in upper case are one error, which says what to write.
func (p *problems) lower(line int, name string) string {
	lower := strings.ToLower(name)
	if lower == name {
		return name
	}
	if p.upper.count++; p.upper.count == 1 {
		p.upper.line, p.upper.name = line, name
	}
	return lower
}

func (u upperCase) text() string {
	text := fmt.Sprintf("names are written in lower case: write %s for %s", strings.ToLower(u.name), u.name)
	if u.count > 1 {
		text += fmt.Sprintf(", and so on for %d more", u.count-1)
	}
	return text
}

func (p *problems) add(line int, column, format string, args ...any) {
	p.list = append(p.list, &Error{p.file, line, column, fmt.Sprintf(format, args...)})
}

// full reports whether maxErrors were found, so that reading can stop.
func (p *problems) full() bool { return len(p.list) >= maxErrors }

func (p *problems) err() error {
	if u := p.upper; u.count > 0 {
		p.list, p.upper = append(Errors{{p.file, u.line, "", u.text()}}, p.list...), upperCase{}
	}
	if len(p.list) == 0 {
		return nil
	}
	return p.list[:min(len(p.list), maxErrors)]
}

// keep adds the error of a function that parses one value.
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
