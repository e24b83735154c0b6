package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strconv"
	"strings"

	"pando/internal/trace"
)

// maxEvent bounds one line of an event stream.
const maxEvent = 1 << 20

// Follow yields every event after a sequence number, first the recorded ones, then new ones, until ctx ends or the
// server goes away (the last pair has the error). Continue with the Seq of the last event.
func (c *Client) Follow(ctx context.Context, after int64) iter.Seq2[trace.Event, error] {
	return func(yield func(trace.Event, error) bool) {
		q := url.Values{"after": {strconv.FormatInt(after, 10)}}
		res, err := c.send(ctx, "GET", "/v1/events/stream", q, nil)
		if err != nil {
			yield(trace.Event{}, err)
			return
		}
		defer res.Body.Close()
		if err := readStream(res.Body, func(e trace.Event) bool { return yield(e, nil) }); err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			yield(trace.Event{}, c.lost(err))
		}
	}
}

func (c *Client) lost(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &UnreachableError{Server: c.name, Hint: c.hint, Err: fmt.Errorf("event stream: %w", err)}
}

// readStream reads a stream of server-sent events; only their data lines matter. It returns nil when yield stops, and
// an error otherwise, because a stream has no regular end.
func readStream(r io.Reader, yield func(trace.Event) bool) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), maxEvent)
	for s.Scan() {
		data, ok := strings.CutPrefix(s.Text(), "data:")
		if !ok {
			continue
		}
		var e trace.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("decode event: %w", err)
		}
		if !yield(e) {
			return nil
		}
	}
	if err := s.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
