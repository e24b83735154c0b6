package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// patience bounds how long a patient client waits for one request, in all.
const patience = 5 * time.Minute

// Patient has the client wait where the server says that it asks too often, for as long as that says, and ask
// again; told is called before each wait. It is called before the client is used.
func (c *Client) Patient(told func()) { c.told = told }

// sendBytes is send for a body of the given media type; "": there is none.
func (c *Client) sendBytes(
	ctx context.Context,
	method, path string,
	query url.Values,
	kind string,
	body io.Reader,
) (*http.Response, error) {
	for waited := time.Duration(0); ; {
		res, err := c.sendOnce(ctx, method, path, query, kind, body)
		var refused *Error
		if !errors.As(err, &refused) || refused.RetryAfter <= 0 || c.told == nil ||
			waited+refused.RetryAfter > patience ||
			!rewound(body) {
			return res, err
		}
		c.told()
		waited += refused.RetryAfter
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(refused.RetryAfter):
		}
	}
}

// rewound reports whether a body can be sent again, from its beginning.
func rewound(body io.Reader) bool {
	if body == nil {
		return true
	}
	s, ok := body.(io.Seeker)
	if !ok {
		return false
	}
	_, err := s.Seek(0, io.SeekStart)
	return err == nil
}

// retryAfter reads the header of a refusal, 0 where it says nothing.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 3600)) * time.Second
}
