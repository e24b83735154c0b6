package metrics

import (
	"io"
	"net/http"
	"strconv"
	"strings"
)

// HTTP counts what a listener answers.
func (s *Site) HTTP(listener string, next http.Handler) http.Handler {
	inFlight := s.inFlight.WithLabelValues(listener)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inFlight.Inc()
		c := &counted{ResponseWriter: w, status: http.StatusOK}
		defer func() { // an answer that is broken off by a panic is one, too
			inFlight.Dec()
			route := routeOf(r)
			s.requests.WithLabelValues(listener, route, strconv.Itoa(c.status)).Inc()
			s.answered.WithLabelValues(listener, route).Add(float64(c.bytes))
		}()
		next.ServeHTTP(c, r)
	})
}

// routeOf is the pattern that a request matched, without its method: what a client made up is no route.
func routeOf(r *http.Request) string {
	_, path, ok := strings.Cut(r.Pattern, " ")
	if !ok {
		path = r.Pattern
	}
	if path == "" || path == "/v1/" || path == "/" {
		return "none"
	}
	return strings.TrimSuffix(path, "{$}")
}

// counted is an answer whose status and bytes are counted.
type counted struct {
	http.ResponseWriter
	status int
	begun  bool
	bytes  int64
}

// WriteHeader notes the status.
func (c *counted) WriteHeader(status int) {
	if !c.begun && status >= http.StatusOK {
		c.begun, c.status = true, status
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write counts.
func (c *counted) Write(b []byte) (int, error) {
	c.begun = true
	n, err := c.ResponseWriter.Write(b)
	c.bytes += int64(n)
	return n, err
}

// ReadFrom keeps the short way from a file to a socket, which net/http has for whoever has this method.
func (c *counted) ReadFrom(r io.Reader) (int64, error) {
	c.begun = true
	n, err := io.Copy(c.ResponseWriter, r)
	c.bytes += n
	return n, err
}

// Unwrap is for http.ResponseController.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }
