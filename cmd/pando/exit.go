package main

import (
	"context"
	"errors"
	"fmt"

	"pando/internal/api"
	"pando/internal/server"
)

// The exit codes. They are part of the interface: docs/cli.md lists them and scripts branch on them.
const (
	exitOK          = 0
	exitFailed      = 1   // it was tried and failed
	exitUsage       = 2   // the command line makes no sense
	exitNotFound    = 3   // no such node, group, image, boot or token
	exitConflict    = 4   // exists already, or is still in use
	exitUnreachable = 5   // no server answers
	exitDenied      = 6   // the server does not know the token
	exitProblem     = 7   // doctor: something keeps nodes from booting; store check, image verify: something is broken
	exitWarning     = 8   // doctor: nothing worse than warnings
	exitReturned    = 9   // rollout: it halted, or returned to the version before
	exitInterrupted = 130 // stopped by SIGINT or SIGTERM
)

// usageError is a command line that makes no sense.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// hintError is an error with a line that says what to do about it.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

func withHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &hintError{err, hint}
}

// exitError ends the program with a code when all that there is to say has been said.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit status %d", e.code) }

// finish prints what went wrong and chooses the exit code.
func (a *app) finish(ctx context.Context, err error) int {
	var quiet *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &quiet):
		return quiet.code
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	hint := hintOf(err)
	if a.json {
		writeJSON(a.err, api.ErrorBody{Error: &api.Error{Code: codeOf(err), Message: err.Error(), Hint: hint}})
		return exitCode(err)
	}
	fmt.Fprintln(a.err, "pando:", err)
	if hint != "" {
		fmt.Fprintln(a.err, " hint:", hint)
	}
	return exitCode(err)
}

// hinter is an error that knows what to do about it.
type hinter interface {
	error
	Hint() string
}

func hintOf(err error) string {
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

func exitCode(err error) int {
	var usage *usageError
	var lost *api.UnreachableError
	var inUse *server.InUseError
	switch {
	case errors.As(err, &usage), api.IsCode(err, api.BadRequest):
		return exitUsage
	case api.IsCode(err, api.NotFound):
		return exitNotFound
	case api.IsCode(err, api.Conflict), errors.As(err, &inUse):
		return exitConflict
	case api.IsCode(err, api.Unauthorized):
		return exitDenied
	case errors.As(err, &lost):
		return exitUnreachable
	}
	return exitFailed
}

// codeOf is the code of an error that is printed as JSON; "unreachable", "usage" and "failed" exist only here.
func codeOf(err error) api.Code {
	var refused *api.Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	switch exitCode(err) {
	case exitUsage:
		return "usage"
	case exitUnreachable:
		return "unreachable"
	}
	return "failed"
}
