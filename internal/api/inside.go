package api

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
)

// OverHandler returns a client of a server in the same process. The handler runs on the caller's goroutine and in the
// request's context. The client returns an answer only when it is complete, so it cannot read event streams.
func OverHandler(h http.Handler) *Client {
	return &Client{base: "http://pando", name: "this process", http: &http.Client{Transport: inside{h}}}
}

type remoteKey struct{}

// WithRemote returns a context that sets the remote address (host and port) of requests by a client of OverHandler.
func WithRemote(ctx context.Context, addr string) context.Context {
	return context.WithValue(ctx, remoteKey{}, addr)
}

// inside is a transport that calls a handler instead of the network.
type inside struct{ h http.Handler }

// RoundTrip calls the handler.
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

// answerInside records an answer.
type answerInside struct {
	header http.Header
	status int
	begun  bool
	body   bytes.Buffer
}

// Header returns the answer's header.
func (a *answerInside) Header() http.Header { return a.header }

// WriteHeader records the status. Only the first call counts.
func (a *answerInside) WriteHeader(status int) {
	if !a.begun {
		a.begun, a.status = true, status
	}
}

// Write appends to the body.
func (a *answerInside) Write(b []byte) (int, error) {
	a.begun = true
	return a.body.Write(b)
}
