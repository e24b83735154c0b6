package problem

import (
	"errors"
	"fmt"
)

// Problem is an error that a person at the machine can act on.
type Problem struct {
	Err   error
	Tried string // what was tried, "" when the error says so itself
	Hint  string // what to do about it
	Final bool   // trying again in this boot cannot help
}

// Error reports what failed and what was tried.
func (p *Problem) Error() string {
	if p.Tried == "" {
		return p.Err.Error()
	}
	return fmt.Sprintf("%v (tried: %s)", p.Err, p.Tried)
}

// Unwrap returns what failed.
func (p *Problem) Unwrap() error { return p.Err }

// HintOf is the hint of the Problem in err, "" without one.
func HintOf(err error) string {
	var p *Problem
	if errors.As(err, &p) {
		return p.Hint
	}
	return ""
}

// IsFinal reports whether trying again in this boot cannot help.
func IsFinal(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Final
}
