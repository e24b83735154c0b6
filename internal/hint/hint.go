package hint

import (
	"errors"
	"io/fs"

	"pando/internal/httpapi"
)

type hinted struct {
	err  error
	hint string
}

func (e *hinted) Error() string { return e.err.Error() }
func (e *hinted) Unwrap() error { return e.err }

// With returns err with a hint.
func With(err error, hint string) error { return &hinted{err, hint} }

// Of returns the hint of an error, "" if it has none.
func Of(err error) string {
	var h *hinted
	if errors.As(err, &h) {
		return h.hint
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "look at the store with `pando doctor`"
	}
	return ""
}

// API returns err as an error of the API with its hint. An error without a hint is returned unchanged.
func API(err error) error {
	if h := Of(err); h != "" {
		return httpapi.WithHint(err, h)
	}
	return err
}
