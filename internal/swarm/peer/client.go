package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"pando/internal/swarm"
)

// ErrForgotten means that the tracker does not know this node.
var ErrForgotten = errors.New("the tracker does not know this node")

// trackerClient sends messages to a tracker.
type trackerClient struct {
	url    string // base URL of a server
	client *http.Client
	bytes  *atomic.Int64 // bytes of messages and replies, without HTTP headers
	calls  *atomic.Int64
}

// post sends a message and decodes the reply into a.
func (c trackerClient) post(ctx context.Context, path string, q, a any, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := json.Marshal(q)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(
		ctx,
		http.MethodPost,
		strings.TrimSuffix(c.url, "/")+"/swarm/"+path,
		bytes.NewReader(body),
	)
	if err != nil {
		return fmt.Errorf("tracker: %w", err)
	}
	req.Header.Set("User-Agent", "") // none
	resp, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("tracker: %w", err)
	}
	defer resp.Body.Close()
	c.calls.Add(1)
	c.bytes.Add(int64(len(body)) + max(0, resp.ContentLength))
	if resp.StatusCode == http.StatusNotFound && path == "ask" {
		return ErrForgotten
	}
	if resp.StatusCode != http.StatusOK {
		_, _ = io.CopyN(io.Discard, resp.Body, swarm.MaxMessage)
		return fmt.Errorf("tracker %s: HTTP status %d", path, resp.StatusCode)
	}
	if err := swarm.Decode(resp.Body, a); err != nil {
		return fmt.Errorf("tracker %s: %w", path, err)
	}
	return nil
}
