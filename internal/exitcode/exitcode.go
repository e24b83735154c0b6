package exitcode

import (
	"errors"
	"fmt"

	"pando/internal/api"
)

// The exit codes. They are part of the interface: the help topic exit-codes lists them and scripts branch on them.
const (
	OK          = 0
	Failed      = 1   // it was tried and failed
	Usage       = 2   // the command line makes no sense
	NotFound    = 3   // no such node, group, image, boot or token
	Conflict    = 4   // exists already, or is still in use
	Unreachable = 5   // no server answers
	Denied      = 6   // the server does not know the token
	Problem     = 7   // doctor: something keeps nodes from booting; store check, image verify: something is broken
	Warning     = 8   // doctor: nothing worse than warnings
	Returned    = 9   // rollout: it halted, or returned to the version before
	Interrupted = 130 // stopped by SIGINT or SIGTERM
)

// UsageError is a command line that makes no sense.
type UsageError struct{ err error }

func (e *UsageError) Error() string { return e.err.Error() }
func (e *UsageError) Unwrap() error { return e.err }

// AsUsage makes an error one of the command line.
func AsUsage(err error) error { return &UsageError{err} }

// Usagef is an error of the command line.
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

// hintError is an error with a line that says what to do about it.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// WithHint adds a line that says what to do about an error.
func WithHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &hintError{err, hint}
}

// SilentError ends the program with a code when all that there is to say has been said.
type SilentError struct{ Code int }

// Silent ends the program with a code and prints no more.
func Silent(code int) error { return &SilentError{code} }

func (e *SilentError) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

// hinter is an error that knows what to do about it.
type hinter interface {
	error
	Hint() string
}

// HintOf is what can be done about an error, "" where nobody knows.
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
