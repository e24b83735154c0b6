package registry

import (
	"errors"
	"fmt"
)

// Reasons why a read or write is refused; test with errors.Is.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("exists already")
	ErrInUse    = errors.New("is in use")
	ErrBeyond   = errors.New("is outside of the groups of this token or user") // see Within
	ErrFull     = errors.New("the disk is full")
	ErrDryRun   = errors.New("dry run") // returned by Update's function to undo a change that would have succeeded
)

// FileError means that a database file cannot be used.
type FileError struct {
	Path string
	hint string
	Err  error
}

func (e *FileError) Error() string { return fmt.Sprintf("open database %s: %v", e.Path, e.Err) }

// Unwrap returns the reason.
func (e *FileError) Unwrap() error { return e.Err }

// Hint says what the administrator can do, or "" if nothing is known.
func (e *FileError) Hint() string { return e.hint }

func notFound(kind, name string) error { return fmt.Errorf("%s %q: %w", kind, name, ErrNotFound) }
func beyond(what string) error         { return fmt.Errorf("%s %w", what, ErrBeyond) }
func exists(kind, name string) error   { return fmt.Errorf("%s %q: %w", kind, name, ErrExists) }
