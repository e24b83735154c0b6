package metrics

import (
	"io"
	"net/http"
	"strconv"
	"strings"
)

// HTTP counts the requests that a listener answers.
func (s *Site) HTTP(listener string, next http.Handler) http.Handler {
	inFlight := s.inFlight.WithLabelValues(listener)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inFlight.Inc()
		c := &counted{ResponseWriter: w, status: http.StatusOK}
		defer func() { // also count an answer that a panic ended
			inFlight.Dec()
			route := routeOf(r)
			s.requests.WithLabelValues(listener, route, strconv.Itoa(c.status)).Inc()
			s.answered.WithLabelValues(listener, route).Add(float64(c.bytes))
		}()
		next.ServeHTTP(c, r)
	})
}

// routeOf returns the pattern that a request matched, without its method. Paths that clients make up must not become
// labels.
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

// counted is a response whose status and bytes are counted.
type counted struct {
	http.ResponseWriter
	status int
	begun  bool
	bytes  int64
}

// WriteHeader records the status.
func (c *counted) WriteHeader(status int) {
	if !c.begun && status >= http.StatusOK {
		c.begun, c.status = true, status
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes.
func (c *counted) Write(b []byte) (int, error) {
	c.begun = true
	n, err := c.ResponseWriter.Write(b)
	c.bytes += int64(n)
	return n, err
}

// ReadFrom lets net/http use sendfile(2), which it does only for writers with this method.
func (c *counted) ReadFrom(r io.Reader) (int64, error) {
	c.begun = true
	n, err := io.Copy(c.ResponseWriter, r)
	c.bytes += n
	return n, err
}

// Unwrap is for http.ResponseController.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }
