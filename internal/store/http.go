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

// MaxObject is the largest object, in bytes, that is taken without its size being known beforehand: an index
// root, or a chunk that did not compress.
const MaxObject = max(chunk.MaxRootSize, chunk.MaxRaw)

// ErrMissing means that a source does not have the object.
var ErrMissing = errors.New("the source has no such object")

// ErrBusy means that a source has the object and cannot send it now.
var ErrBusy = errors.New("the source is busy")

// HTTP is a source that reads the objects of one server by plain GET of URL/o/<64 hex digits>; if URL ends with
// /objects, of URL/ab/<64 hex digits>, as the files of a store are named. Anything can be that server: Pando, any
// web server over a copy of its store, a bucket.
type HTTP struct {
	URL    string // base, without a slash at the end
	Client *http.Client
	Proofs chunk.FastDigests // of objects that it is asked for
	// objects are asked for by the beginnings of their names (chunk.ShortID): it knows which it has
	ShortNames bool
	Query      string // of each question; "": none

	// FromBucket, if set, is called with the bytes of an object that came from a bucket: one at URL, or one to which
	// the server redirected the request.
	FromBucket func(bytes int)
}

// dialTime is how long a connection may take to come about on usual links.
const dialTime = 3 * time.Second

// connIdle is how long a connection is kept that nothing is asked of. On a slow link a new one takes seconds, and
// many peers are asked in turn; a node's server keeps it for as long.
const connIdle = time.Minute

// keepAlive is after how long of silence a connection is asked whether it is still there. A storm of two hundred
// whose questions are held that asked each 10 s cost a server as many bytes as 3 % of a boot.
const keepAlive = 30 * time.Second

// connBuffer is what a connection has for headers, in bytes, both ways. Bodies are read past it. A node in a storm
// has a hundred connections, and 4 KiB for each way would be 0.6 MB more.
const connBuffer = 1 << 10

// NewClient returns an HTTP client for objects: no proxy, no cookies, no name resolution, at most conns
// connections to each server. What it dials and where it is redirected to is given by IP address, because a
// resolver would read files of the file system that is being served.
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
	// what is asked, and that something has come, passes what this machine sends to others meanwhile
	if x, ok := c.(syscall.Conn); ok {
		sockopt.Set(x, sockopt.Message)
	}
	return CoalesceReads(c), nil
}

// dial bounds the time that a connection may take to come about.
func (s *TimeoutFloor) dial(connect func(context.Context) (net.Conn, error)) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, s.AtLeast(dialTime))
		defer cancel()
		return connect(ctx)
	}
}

// Name is the base URL.
func (h *HTTP) Name() string { return h.URL }

// Get makes one attempt. The error is ErrMissing if the server does not have the object, a *chunk.WrongBytesError if a
// complete reply is not the object, and another one if the transfer failed.
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
	req.Header.Set("User-Agent", "") // none
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

// patiently returns a context that ends after patience without a call of wind, 0: 10 s. Every byte that arrives
// winds it up again: a slow server is not a dead one.
func patiently(ctx context.Context, patience time.Duration) (_ context.Context, wind, end func()) {
	if patience <= 0 {
		patience = 10 * time.Second
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(patience, func() { cancel(fmt.Errorf("no byte for %v", patience)) })
	return ctx, func() { timer.Reset(patience) }, func() { timer.Stop(); cancel(nil) }
}

// isBucket reports whether objects are named as the files of a store are.
func (h *HTTP) isBucket() bool { return strings.HasSuffix(strings.TrimSuffix(h.URL, "/"), "/objects") }

// object is the URL of an object.
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

// because prefers the reason why ctx was cancelled to "context canceled".
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

// readBody reads at most the object's size and one byte. A body that is complete but has another size than
// the object cannot be the object; one that breaks off is a failed transfer.
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
