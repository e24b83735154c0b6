package api

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
)

// OverHandler is a client of a server in the same process: h answers, on the caller's goroutine and in the
// request's context. An answer is whole before it is returned, so streams of events are not for this client.
func OverHandler(h http.Handler) *Client {
	return &Client{base: "http://pando", name: "this process", http: &http.Client{Transport: inside{h}}}
}

type remoteKey struct{}

// WithRemote returns a context in which a client of OverHandler asks in the name of a remote address, host and port.
func WithRemote(ctx context.Context, addr string) context.Context {
	return context.WithValue(ctx, remoteKey{}, addr)
}

// inside is a transport that goes nowhere.
type inside struct{ h http.Handler }

// RoundTrip has the handler answer.
func (t inside) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	if req.Body == nil {
		req.Body = http.NoBody
	}
	from, _ := req.Context().Value(remoteKey{}).(string)
	req.RequestURI, req.RemoteAddr, req.Host = req.URL.RequestURI(), cmp.Or(from, "inside"), req.URL.Host
	a := &answerInside{header: http.Header{}, status: http.StatusOK}
	t.h.ServeHTTP(a, req)
	return &http.Response{
		Status:        http.StatusText(a.status),
		StatusCode:    a.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        a.header,
		Body:          io.NopCloser(&a.body),
		ContentLength: int64(a.body.Len()),
		Request:       req,
	}, nil
}

// answerInside takes an answer down.
type answerInside struct {
	header http.Header
	status int
	begun  bool
	body   bytes.Buffer
}

// Header is the answer's header.
func (a *answerInside) Header() http.Header { return a.header }

// WriteHeader takes the first status.
func (a *answerInside) WriteHeader(status int) {
	if !a.begun {
		a.begun, a.status = true, status
	}
}

// Write adds to the body.
func (a *answerInside) Write(b []byte) (int, error) {
	a.begun = true
	return a.body.Write(b)
}
