package api

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Client calls the operator's half of the API, on a unix socket or over TLS 1.3 with a token. A token contains the
// server's public key, which the client pins, so it needs neither a certificate authority nor a host name. It is safe
// for concurrent use. It retries nothing, unless Patient was called.
type Client struct {
	base   string // "https://10.0.0.1:8443", or "http://pando" for a socket
	name   string // for error texts: the URL, or the socket's path
	secret string // sent as bearer; "" on a socket
	http   *http.Client
	hint   string

	told func() // called before each wait; nil: the client does not wait
}

const dialTimeout = 10 * time.Second

// OverSocket returns a client of the server on this machine, which listens on a socket in its data directory.
func OverSocket(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		d := net.Dialer{Timeout: dialTimeout}
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{
		base: "http://pando", name: path,
		http: &http.Client{Transport: &http.Transport{DialContext: dial}},
		hint: "start it with `pando up`, name its data directory with --data, or set PANDO_SERVER and PANDO_TOKEN",
	}
}

// OverTLS returns a client of a remote server. The server is a base URL such as "https://10.0.0.1:8443", or a host with
// or without a port; the token is the output of `pando token create`. The client pins the key in the token and ignores
// names and dates of the certificate.
func OverTLS(server, token string) (*Client, error) {
	secret, key, err := ParseToken(token)
	if err != nil {
		return nil, err
	}
	base, err := serverURL(server)
	if err != nil {
		return nil, err
	}
	return &Client{
		base: base, name: base, secret: secret,
		http: &http.Client{Transport: &http.Transport{
			TLSClientConfig:     PinnedTLS(key),
			TLSHandshakeTimeout: dialTimeout,
			DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		}},
		hint: "check the address in PANDO_SERVER (or --server), and that port 8443 of that host is open to you",
	}, nil
}

// serverURL adds the scheme and port that a person may leave out.
func serverURL(s string) (string, error) {
	if !strings.Contains(s, "://") {
		s = "https://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "https" {
		return "", fmt.Errorf("server %q is not a host or a URL such as https://10.0.0.1:8443", s)
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), "8443")
	}
	return "https://" + u.Host, nil
}

// Server returns the server's name for people: the socket's path or the base URL.
func (c *Client) Server() string { return c.name }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call sends in as JSON (nil: no body) and decodes the answer into out (nil: the answer is ignored).
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	res, err := c.send(ctx, method, path, query, in)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return fmt.Errorf("%s %s: decode answer: %w", method, path, err)
	}
	return nil
}

// send returns the answer of a successful request. The caller closes its body.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, in any) (*http.Response, error) {
	if in == nil {
		return c.sendBytes(ctx, method, path, query, "", nil)
	}
	b, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("%s %s: encode request: %w", method, path, err)
	}
	return c.sendBytes(ctx, method, path, query, "application/json", bytes.NewReader(b))
}

// sendOnce sends a request once. kind is the media type of the body; "": no body.
func (c *Client) sendOnce(
	ctx context.Context,
	method, path string,
	query url.Values,
	kind string,
	body io.Reader,
) (*http.Response, error) {
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if c.secret != "" {
		req.Header.Set("Authorization", "Bearer "+c.secret)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if res.StatusCode/100 != 2 {
		defer res.Body.Close()
		return nil, readError(res, method, path)
	}
	return res, nil
}

// unreachable turns a network error into an *UnreachableError with a hint.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	hint := c.hint
	var pin *WrongKeyError
	switch {
	case errors.As(err, &pin):
		hint = "another server answers at this address, or the server's key was replaced: get a new token there"
	case errors.Is(err, syscall.EACCES):
		hint = "the socket belongs to root: use sudo, or a token over TLS"
	}
	return &UnreachableError{Server: c.name, Hint: hint, Err: err}
}

// readError reads the body of a refusal. A body in another format becomes an error with the name of the status.
func readError(res *http.Response, method, path string) error {
	b, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	var body ErrorBody
	if json.Unmarshal(b, &body) == nil && body.Error != nil {
		body.Error.Status, body.Error.RetryAfter = res.StatusCode, retryAfter(res.Header)
		return body.Error
	}
	code := Internal
	for _, s := range statuses {
		if s.status == res.StatusCode {
			code = s.code
		}
	}
	return &Error{
		Status:  res.StatusCode,
		Code:    code,
		Message: fmt.Sprintf("%s %s: server answered %s", method, path, res.Status),
		Hint:    "is this a Pando server of a release that knows this request? `pando version` prints both",
	}
}

// KeyText returns a server's key as BootConfig and Keys have it.
func KeyText(key ed25519.PublicKey) string { return encodeKey(key) }
