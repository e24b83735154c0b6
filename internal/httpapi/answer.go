package httpapi

import (
	"net/http"
	"strconv"

	"pando/internal/api"
)

// JSON returns a handler that sends what ask returns as JSON. A nil answer is sent as 204 No Content.
func JSON(ask func(*http.Request) (any, error)) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		v, err := ask(r)
		if err != nil {
			return err
		}
		if v == nil {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		return Reply(w, v)
	}
}

// Body decodes the JSON body of an operator's request. Unknown fields are an error.
func Body[T any](r *http.Request) (T, error) { return decode[T](nil, r) }

// Invalid converts the error of a validation to a BadRequest. It returns nil for nil.
func Invalid(err error) error {
	if err == nil {
		return nil
	}
	return api.NewError(api.BadRequest, err.Error(), "")
}

// BadRequest returns an error that tells the caller what is wrong with the request, and what to do.
func BadRequest(message, hint string) error { return api.NewError(api.BadRequest, message, hint) }

// WithHint returns err as an API error with this hint.
func WithHint(err error, hint string) error {
	refusal := ErrorOf(err)
	refusal.Hint = hint
	return refusal
}

// QueryInt parses a query parameter as a number. It returns otherwise if the parameter is absent.
func QueryInt(r *http.Request, name string, otherwise int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, BadRequest("parameter "+name+": "+strconv.Quote(text)+" is not a number", "")
	}
	return n, nil
}
