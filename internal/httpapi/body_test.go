package httpapi

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/iotest"
)

// TestBadBodyIsTheClients: a body that breaks off is answered with 400, and is no error in the log.
func TestBadBodyIsTheClients(t *testing.T) {
	var log bytes.Buffer
	m := NewMux(slog.New(slog.NewTextHandler(&log, nil)))
	m.Route("PUT /v1/x", func(_ http.ResponseWriter, r *http.Request) error {
		_, err := io.ReadAll(r.Body)
		return errors.Join(err)
	})
	for _, why := range []error{io.ErrUnexpectedEOF, errors.New("invalid byte in chunk length")} {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest("PUT", "/v1/x", iotest.ErrReader(why)))
		if w.Code != http.StatusBadRequest || log.Len() > 0 {
			t.Errorf("%v: %d %s, log: %s", why, w.Code, w.Body, log.String())
		}
	}
}
