package problem

import (
	"errors"
	"fmt"
)

// Problem is an error that a person at the machine can act on.
type Problem struct {
	Err   error
	Tried string // what was tried, "" if the error says it
	Hint  string // what to do about it
	Final bool   // another try in this boot cannot help
}

// Error reports what failed and what was tried.
func (p *Problem) Error() string {
	if p.Tried == "" {
		return p.Err.Error()
	}
	return fmt.Sprintf("%v (tried: %s)", p.Err, p.Tried)
}

// Unwrap returns Err.
func (p *Problem) Unwrap() error { return p.Err }

// HintOf returns the hint of the Problem in err, "" if there is none.
func HintOf(err error) string {
	var p *Problem
	if errors.As(err, &p) {
		return p.Hint
	}
	return ""
}

// IsFinal reports whether another try in this boot cannot help.
func IsFinal(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Final
}
