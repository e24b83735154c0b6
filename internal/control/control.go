package control

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"pando/internal/api"
)

// Client is the node's side of the control port. It pins the server's key and ignores names and dates of the
// certificate. It tries the base URLs in order, beginning with the one that answered last. It is safe for concurrent
// use.
type Client struct {
	client *http.Client

	mu   sync.Mutex
	urls []string
}

// New returns a client that accepts only this server key, 32 bytes in base64. dial makes the connections; nil: a
// plain net.Dialer.
func New(
	urls []string,
	key string,
	dial func(ctx context.Context, network, address string) (net.Conn, error),
) (*Client, error) {
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, errors.New("server key of the trust cpio is not 32 bytes in base64")
	}
	if len(urls) == 0 {
		return nil, errors.New("boot.json lists no server control address (port 8443)")
	}
	if dial == nil {
		dial = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	}
	t := &http.Transport{
		TLSClientConfig:     api.PinnedTLS(ed25519.PublicKey(raw)),
		TLSHandshakeTimeout: 10 * time.Second,
		DialContext:         dial,
		IdleConnTimeout:     90 * time.Second,

		ExpectContinueTimeout: 3 * time.Second,
	}
	return Over(urls, t), nil
}

// Over returns a client that uses an existing RoundTripper.
func Over(urls []string, t http.RoundTripper) *Client {
	return &Client{urls: slices.Clone(urls), client: &http.Client{Transport: t, Timeout: 30 * time.Second}}
}

// CloseIdle closes connections that are not in use.
func (c *Client) CloseIdle() { c.client.CloseIdleConnections() }

// Refused is an answer of the server with a status other than success.
type Refused struct {
	Status int
	Err    *api.Error
}

func (e *Refused) Error() string {
	if e.Err != nil {
		return e.Err.Message
	}
	return fmt.Sprintf("server answered with status %d", e.Status)
}

// Hint returns the server's advice, "" if there is none.
func (e *Refused) Hint() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Hint
}

// ForGood reports whether the server will never accept a report that failed with this error. Errors that depend on the
// session, the clock or the server's load may go away.
func ForGood(err error) bool {
	var r *Refused
	if !errors.As(err, &r) || r.Status/100 != 4 {
		return false
	}
	switch r.Status {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return true
}

// Call posts a request and decodes the reply into out, unless out is nil. Any reply ends the call, also an error: the
// next server is tried only if none arrives.
func (c *Client) Call(ctx context.Context, path, authorization string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	var errs []error
	for _, u := range c.InOrder() {
		err := c.post(ctx, strings.TrimSuffix(u, "/")+path, authorization, body, out)
		var r *Refused
		if err == nil || errors.As(err, &r) {
			c.answered(u)
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// InOrder returns the base URLs, the one that answered last first.
func (c *Client) InOrder() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.urls)
}

// answered moves u to the front.
func (c *Client) answered(u string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.urls, u); i > 0 {
		c.urls[0], c.urls[i] = c.urls[i], c.urls[0]
	}
}

// Stream posts a request whose answer may take any time, to the first server that answers. It returns nil if the
// answer has no content.
func (c *Client) Stream(ctx context.Context, path, authorization string, in any) (io.ReadCloser, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	return c.stream(ctx, path, authorization, func() io.Reader { return bytes.NewReader(body) })
}

// Upload posts a body that may take any time, to the first server that answers. It calls body for each server that it
// tries. The server can refuse before the body is sent.
func (c *Client) Upload(ctx context.Context, path, authorization string, body func() io.Reader) error {
	answer, err := c.stream(ctx, path, authorization, body)
	if answer != nil {
		answer.Close()
	}
	return err
}

func (c *Client) stream(
	ctx context.Context,
	path, authorization string,
	body func() io.Reader,
) (io.ReadCloser, error) {
	patient := &http.Client{Transport: c.client.Transport}
	var errs []error
	for _, u := range c.InOrder() {
		resp, err := send(ctx, patient, strings.TrimSuffix(u, "/")+path, authorization, body())
		if err == nil {
			return streamed(resp)
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func streamed(resp *http.Response) (io.ReadCloser, error) {
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return nil, nil
	}
	return nil, readRefusal(resp)
}

func send(ctx context.Context, client *http.Client, url, authorization string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return nil, err
	}
	if req.ContentLength > 0 {
		req.Header.Set("Content-Type", "application/json")
	} else {
		req.Header.Set("Expect", "100-continue") // the body of an Upload
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	return client.Do(req)
}

// readRefusal returns the error of an answer whose status is not a success.
func readRefusal(resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	var e api.ErrorBody
	_ = json.Unmarshal(data, &e)
	return &Refused{resp.StatusCode, e.Error}
}

func (c *Client) post(ctx context.Context, url, authorization string, body []byte, out any) error {
	resp, err := send(ctx, c.client, url, authorization, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return readRefusal(resp)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil || out == nil || resp.StatusCode == http.StatusNoContent {
		return err
	}
	return json.Unmarshal(data, out)
}
