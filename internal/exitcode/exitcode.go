package exitcode

import (
	"errors"
	"fmt"

	"pando/internal/api"
)

// The exit codes are part of the interface: the help topic exit-codes lists them, and scripts depend on them.
const (
	OK          = 0
	Failed      = 1   // the command failed
	Usage       = 2   // wrong command line
	NotFound    = 3   // no such node, group, image, boot or token
	Conflict    = 4   // it exists already, or is still in use
	Unreachable = 5   // no server answers
	Denied      = 6   // the server refuses the token
	Problem     = 7   // doctor: something keeps nodes from booting; store check, image verify: something is broken
	Warning     = 8   // doctor: nothing worse than warnings
	Returned    = 9   // rollout: it halted or was rolled back
	Interrupted = 130 // stopped by SIGINT or SIGTERM
)

// UsageError is an error in the command line.
type UsageError struct{ err error }

func (e *UsageError) Error() string { return e.err.Error() }
func (e *UsageError) Unwrap() error { return e.err }

// AsUsage turns an error into a usage error.
func AsUsage(err error) error { return &UsageError{err} }

// Usagef returns a usage error.
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

// hintError is an error with a hint.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// WithHint adds a hint to an error: a line that says what to do.
func WithHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &hintError{err, hint}
}

// SilentError ends the program with a code after the command has printed everything itself.
type SilentError struct{ Code int }

// Silent returns an error that ends the program with a code and prints nothing.
func Silent(code int) error { return &SilentError{code} }

func (e *SilentError) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

// hinter is an error that has a hint.
type hinter interface {
	error
	Hint() string
}

// HintOf returns the hint of an error, "" if it has none.
func HintOf(err error) string {
	var h *hintError
	var refused *api.Error
	var lost *api.UnreachableError
	var other hinter
	switch {
	case errors.As(err, &h):
		return h.hint
	case errors.As(err, &refused):
		return refused.Hint
	case errors.As(err, &lost):
		return lost.Hint
	case errors.As(err, &other):
		return other.Hint()
	}
	return ""
}
