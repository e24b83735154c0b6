package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pando/internal/api"
	"pando/internal/registry"
)

// Handler answers a request, or returns an error before it has written anything.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Mux routes requests to handlers that return errors. Its patterns are those of http.ServeMux.
type Mux struct {
	*http.ServeMux
	log *slog.Logger
}

// NewMux returns a Mux without routes.
func NewMux(log *slog.Logger) *Mux { return &Mux{ServeMux: http.NewServeMux(), log: log} }

// Route registers a handler, wrapped in the functions wrap, the first one outermost.
func (m *Mux) Route(pattern string, h Handler, wrap ...func(Handler) Handler) {
	for i := len(wrap) - 1; i >= 0; i-- {
		h = wrap[i](h)
	}
	m.ServeMux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = sent{r.Body}
		}
		if err := h(w, r); err != nil {
			m.refuse(w, r, err)
		}
	})
}

// sent is a request body whose read errors are marked as the client's.
type sent struct{ io.ReadCloser }

// Read wraps read errors in a bodyError.
func (s sent) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &bodyError{err}
	}
	return n, err
}

// bodyError is the reason why a body could not be read.
type bodyError struct{ error }

// Unwrap returns the underlying error.
func (e *bodyError) Unwrap() error { return e.error }

// refuse sends an error: JSON under /v1, a line of text elsewhere, for firmware and curl.
func (m *Mux) refuse(w http.ResponseWriter, r *http.Request, err error) {
	e := ErrorOf(err)
	if r.Context().Err() != nil {
		return // the client is gone, which may have caused the error
	}
	if e.Code == api.Internal {
		m.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "peer", r.RemoteAddr, "err", err)
	}
	w.Header().Del("Content-Length")
	w.Header().Set("Cache-Control", "no-store")
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(e.RetryAfter.Seconds())))
	}
	if !strings.HasPrefix(r.URL.Path, "/v1/") {
		text := e.Message
		if e.Hint != "" {
			text += " (" + e.Hint + ")"
		}
		http.Error(w, text, e.Status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	// It fails only if the client is gone.
	_ = json.NewEncoder(w).Encode(api.ErrorBody{Error: e})
}

// ErrorOf converts an error to an API error with a code. An error of an unknown kind is an internal one.
func ErrorOf(err error) *api.Error {
	var e *api.Error
	var big *http.MaxBytesError
	var cut *bodyError
	switch {
	case errors.As(err, &e):
		item, after := e.Item, e.RetryAfter
		e = api.NewError(e.Code, e.Message, e.Hint)
		e.Item, e.RetryAfter = item, after
	case errors.As(err, &big):
		e = api.NewError(api.BadRequest, "request body is too large", "")
	case errors.As(err, &cut):
		e = api.NewError(api.BadRequest, "request body: "+cut.Error(), "send the whole request again")
	case errors.Is(err, registry.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		e = api.NewError(api.NotFound, err.Error(), "")
	case errors.Is(err, registry.ErrBeyond):
		e = api.NewError(api.Forbidden, err.Error(), "another token may do this")
	case errors.Is(err, registry.ErrExists), errors.Is(err, registry.ErrInUse):
		e = api.NewError(api.Conflict, err.Error(), "")
	case errors.Is(err, registry.ErrFull), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e = api.NewError(api.DiskFull, err.Error(), registry.MakeRoom+"; then repeat this: what was recorded is safe")
	case errors.Is(err, fs.ErrPermission):
		e = api.NewError(api.Internal, err.Error(), "look at owner and mode of the data directory")
	default:
		e = api.NewError(api.Internal, err.Error(), "")
	}
	e.Status = e.Code.Status()
	return e
}

// MaxBody limits the body of a request, in bytes. The largest is a node's report with many events.
const MaxBody = 1 << 20

// BodyTime is how long a body may take to arrive.
const BodyTime = 30 * time.Second

// decode decodes an operator's JSON body. It refuses unknown fields, because a change must not lose a misspelt field.
func decode[T any](w http.ResponseWriter, r *http.Request) (T, error) {
	return DecodeJSON[T](w, r, MaxBody, true)
}

// DecodeReport decodes a node's JSON body. It ignores unknown fields, because the node may run a newer agent than this
// server.
func DecodeReport[T any](w http.ResponseWriter, r *http.Request) (T, error) {
	return DecodeJSON[T](w, r, MaxBody, false)
}

// DecodeJSON decodes one JSON value of at most `most` bytes. With strict, unknown fields are an error.
func DecodeJSON[T any](w http.ResponseWriter, r *http.Request, most int64, strict bool) (T, error) {
	var v T
	limited := http.MaxBytesReader(w, r.Body, most)
	// The deadline keeps a slowly sent body from holding its connection for long.
	deadline := func(t time.Time) { _ = http.NewResponseController(w).SetReadDeadline(t) }
	if w != nil {
		deadline(time.Now().Add(BodyTime))
		defer deadline(time.Time{})
	}
	d := json.NewDecoder(limited)
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(&v); err != nil {
		var big *http.MaxBytesError
		if errors.As(err, &big) {
			return v, err
		}
		return v, api.NewError(api.BadRequest, "request body: "+err.Error(), "")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, api.NewError(api.BadRequest, "request body: more than one JSON value", "")
	}
	return v, nil
}

// Reply sends v as JSON.
func Reply(w http.ResponseWriter, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(b, '\n')) // it fails only if the client is gone
	return nil
}
