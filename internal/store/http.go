package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"pando/internal/chunk"
	"pando/internal/sockopt"
)

// MaxObject is the largest object, in bytes, that is accepted if its size is not known in advance: an index root, or
// an uncompressed chunk.
const MaxObject = max(chunk.MaxRootSize, chunk.MaxRaw)

// ErrMissing means that a source does not have the object.
var ErrMissing = errors.New("the source has no such object")

// ErrBusy means that a source has the object but cannot send it now.
var ErrBusy = errors.New("the source is busy")

// HTTP is a source that reads objects from one server by GET URL/o/<64 hex digits>. If URL ends with /objects, it
// reads URL/ab/<64 hex digits>, which is the layout of a store's files. The server may be Pando, any web server with
// a copy of a store, or a bucket.
type HTTP struct {
	URL    string // base URL, without a slash at the end
	Client *http.Client
	Proofs chunk.FastDigests // of the objects that will be requested
	// ShortNames requests objects by chunk.ShortID. The server must know which objects it has.
	ShortNames bool
	Query      string // query string of each request; "": none

	// FromBucket, if not nil, is called with the bytes of each object that came from a bucket: one at URL, or one to
	// which the server redirected the request.
	FromBucket func(bytes int)
}

// dialTime is how long a connection may take to be established on a usual link.
const dialTime = 3 * time.Second

// connIdle is how long an idle connection is kept, by client and server. On a slow link a new one takes seconds, and
// a node requests pieces from many peers in turn.
const connIdle = time.Minute

// keepAlive is the interval of TCP keep-alive probes. In a boot storm with many held requests, shorter intervals cost
// the server noticeable traffic.
const keepAlive = 30 * time.Second

// connBuffer is the size of a connection's buffer for headers in each direction, in bytes. Bodies are read without
// it. It is small because a node in a boot storm has a hundred connections.
const connBuffer = 1 << 10

// NewClient returns an HTTP client for objects. It uses no proxy, cookies or name resolution, and at most conns
// connections to each server. Addresses and redirects must have IP addresses: a resolver would read files of the file
// system that the client serves.
func NewClient(conns int, slow *TimeoutFloor) *http.Client {
	dialer := &net.Dialer{KeepAlive: keepAlive}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if _, err := netip.ParseAddrPort(addr); err != nil {
					return nil, fmt.Errorf("dial %s: not an IP address with a port", addr)
				}
				return Dial(ctx, dialer, addr, slow)
			},
			MaxIdleConnsPerHost: conns,
			MaxConnsPerHost:     conns,
			IdleConnTimeout:     connIdle,
			ReadBufferSize:      connBuffer,
			WriteBufferSize:     connBuffer,
			DisableCompression:  true,
		},
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > 3 {
				return errors.New("more than three redirects")
			}
			return nil
		},
	}
}

// Dial connects by TCP for the transfer of objects.
func Dial(ctx context.Context, d *net.Dialer, addr string, slow *TimeoutFloor) (net.Conn, error) {
	c, err := slow.dial(func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) })(ctx)
	if err != nil {
		return nil, err
	}
	// Requests and acknowledgements get priority over the data that this machine sends to others.
	if x, ok := c.(syscall.Conn); ok {
		sockopt.Set(x, sockopt.Message)
	}
	return CoalesceReads(c), nil
}

// dial bounds the time for establishing a connection.
func (s *TimeoutFloor) dial(connect func(context.Context) (net.Conn, error)) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, s.AtLeast(dialTime))
		defer cancel()
		return connect(ctx)
	}
}

// Name returns the base URL.
func (h *HTTP) Name() string { return h.URL }

// Get makes one attempt. The error is ErrMissing if the server does not have the object, and a *chunk.WrongBytesError
// if a complete reply is not the object. Otherwise the transfer failed.
func (h *HTTP) Get(ctx context.Context, r chunk.Request) (chunk.Verified, error) {
	stored, redirected, err := h.fetch(ctx, r)
	if err != nil {
		return chunk.Verified{}, fmt.Errorf("get %s from %s: %w", r.ID, h.URL, err)
	}
	v, err := h.Proofs.Check(r.ID, stored)
	if err != nil {
		return chunk.Verified{}, fmt.Errorf("get from %s: %w", h.URL, err)
	}
	if redirected && h.FromBucket != nil {
		h.FromBucket(len(stored))
	}
	return v, nil
}

func (h *HTTP) fetch(ctx context.Context, r chunk.Request) (b []byte, redirected bool, err error) {
	ctx, wind, end := patiently(ctx, r.Patience)
	defer end()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.object(r.ID), nil)
	if err != nil {
		return nil, false, err
	}
	req.Header.Set("User-Agent", "") // send none
	if r.Fresh || r.Attempt > 0 {
		req.Header.Set("Cache-Control", "no-cache")
	}
	resp, err := h.Client.Do(req)
	if err != nil {
		return nil, false, because(ctx, err)
	}
	defer resp.Body.Close()
	if err := checkStatus(resp.StatusCode); err != nil {
		return nil, false, err
	}
	b, err = readBody(resp, r, wind)
	return b, h.isBucket() || resp.Request.URL.Host != req.URL.Host, because(ctx, err)
}

// patiently returns a context that ends if wind is not called for the time patience (0: 10 s). The reader calls wind
// for every byte that arrives, so a slow server does not time out.
func patiently(ctx context.Context, patience time.Duration) (_ context.Context, wind, end func()) {
	if patience <= 0 {
		patience = 10 * time.Second
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(patience, func() { cancel(fmt.Errorf("no byte for %v", patience)) })
	return ctx, func() { timer.Reset(patience) }, func() { timer.Stop(); cancel(nil) }
}

// isBucket reports whether objects have the names of a store's files.
func (h *HTTP) isBucket() bool { return strings.HasSuffix(strings.TrimSuffix(h.URL, "/"), "/objects") }

// object returns the URL of an object.
func (h *HTTP) object(id chunk.ID) string {
	base, name := strings.TrimSuffix(h.URL, "/"), id.Name()
	if h.isBucket() {
		return base + "/" + name[:2] + "/" + name
	}
	if h.ShortNames {
		name = id.Short().String()
	}
	if h.Query != "" {
		name += "?" + h.Query
	}
	return base + "/o/" + name
}

// because returns the cause of ctx's cancellation instead of "context canceled".
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

func checkStatus(code int) error {
	switch code {
	case http.StatusOK:
		return nil
	case http.StatusNotFound, http.StatusGone:
		return ErrMissing
	case http.StatusServiceUnavailable:
		return ErrBusy
	}
	return fmt.Errorf("HTTP status %d %s", code, http.StatusText(code))
}

// readBody reads at most one byte more than the object's size. A complete body of another size cannot be the object;
// an incomplete one is a failed transfer.
func readBody(resp *http.Response, r chunk.Request, progress func()) ([]byte, error) {
	limit, room := r.Size, r.Size
	if limit == 0 {
		limit, room = MaxObject, max(resp.ContentLength, 4096)
	}
	if n := resp.ContentLength; n > limit || r.Size > 0 && n >= 0 && n != r.Size {
		return nil, &chunk.WrongBytesError{Want: r.ID, Size: int(n)}
	}
	b := make([]byte, 0, room+1)
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := resp.Body.Read(b[len(b):min(cap(b), int(limit)+1)])
		b = b[:len(b)+n]
		if n > 0 {
			progress()
		}
		switch {
		case int64(len(b)) > limit:
			return nil, &chunk.WrongBytesError{Want: r.ID, Size: len(b)}
		case err == io.EOF:
			return b, nil
		case err != nil:
			return nil, err
		}
	}
}
