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

// patience bounds the total time that a patient client waits for one request.
const patience = 5 * time.Minute

// Patient makes the client repeat a request that the server refused with a Retry-After header, after that time. The
// client calls told before each wait. Patient must be called before the client is used.
func (c *Client) Patient(told func()) { c.told = told }

// sendBytes is send for a body of the given media type; "": no body.
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

// rewound moves a body to its beginning, and reports whether it can be sent again.
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

// retryAfter returns the duration in the header Retry-After, 0 without one.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 3600)) * time.Second
}
