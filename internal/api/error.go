package api

import (
	"errors"
	"net/http"
	"time"
)

// Error is the body of every answer that is not a success, and the error that Client returns for it.
type Error struct {
	Status  int    `json:"-"`
	Code    Code   `json:"code"`           // for programs
	Message string `json:"message"`        // for people: what failed, lower case
	Hint    string `json:"hint,omitempty"` // what to do about it
	Item    string `json:"item,omitempty"` // the item of a declaration that is wrong: "node pc001"

	RetryAfter time.Duration `json:"-"` // when to try again, in whole seconds: the header Retry-After; 0: absent
}

// ErrorBody wraps an Error on the wire.
type ErrorBody struct {
	Error *Error `json:"error"`
}

// Code is the reason of an error, for programs.
type Code string

// The codes, each with the HTTP status that goes with it.
const (
	BadRequest   Code = "bad_request"  // 400: the request does not make sense
	Unauthorized Code = "unauthorized" // 401: no token, or one that is not known
	Forbidden    Code = "forbidden"    // 403: the role does not permit this
	NotFound     Code = "not_found"    // 404: no such object
	Conflict     Code = "conflict"     // 409: exists already, or is still in use
	TooMany      Code = "too_many"     // 429: too many tries; wait
	Unavailable  Code = "unavailable"  // 503: the server needs something that does not answer; try again
	DiskFull     Code = "disk_full"    // 507: the disk of the server is full
	Internal     Code = "internal"     // 500: the server failed
)

var statuses = [...]struct {
	code   Code
	status int
}{
	{BadRequest, http.StatusBadRequest},
	{Unauthorized, http.StatusUnauthorized},
	{Forbidden, http.StatusForbidden},
	{NotFound, http.StatusNotFound},
	{Conflict, http.StatusConflict},
	{TooMany, http.StatusTooManyRequests},
	{Unavailable, http.StatusServiceUnavailable},
	{DiskFull, http.StatusInsufficientStorage},
}

// Status returns the HTTP status of the code, 500 for an unknown code.
func (c Code) Status() int {
	for _, s := range statuses {
		if s.code == c {
			return s.status
		}
	}
	return http.StatusInternalServerError
}

// Error returns the message without the hint; the CLI prints the hint on its own line.
func (e *Error) Error() string { return e.Message }

// NewError returns an error with the HTTP status of the code. The hint may be empty.
func NewError(code Code, message, hint string) *Error {
	return &Error{Status: code.Status(), Code: code, Message: message, Hint: hint}
}

// IsCode reports whether err, or one that it wraps, is an Error with this code.
func IsCode(err error, code Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// UnreachableError means that no answer came: the server is down, or another program answers in its place.
type UnreachableError struct {
	Server string // the socket's path or the base URL
	Hint   string
	Err    error
}

func (e *UnreachableError) Error() string { return "reach server " + e.Server + ": " + e.Err.Error() }

// Unwrap returns the network's error.
func (e *UnreachableError) Unwrap() error { return e.Err }
