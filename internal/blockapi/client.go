package blockapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"pando/internal/link"
)

// Client sends requests to the block daemon's socket.
type Client struct {
	Socket string // "/run/pando/block.sock"
}

// Status returns the counters, and the incidents whose sequence number is greater than since.
func (c Client) Status(ctx context.Context, since int64) (Status, error) {
	var s Status
	b, err := c.do(ctx, http.MethodGet, "/status?since="+strconv.FormatInt(since, 10), nil)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return Status{}, fmt.Errorf("status of the block daemon: %w", err)
	}
	return s, nil
}

// SetNetwork tells the daemon which network settings to maintain from now on. It is called after the lease changed.
func (c Client) SetNetwork(ctx context.Context, n link.Network) error {
	b, err := json.Marshal(n)
	if err == nil {
		_, err = c.do(ctx, http.MethodPut, "/network", b)
	}
	if err != nil {
		return fmt.Errorf("tell the block daemon of the network: %w", err)
	}
	return nil
}

// EndReads ends the recording of the boot's reads and returns it. Later calls return the same recording.
func (c Client) EndReads(ctx context.Context) (Recording, error) {
	var r Recording
	b, err := c.do(ctx, http.MethodPost, "/reads", nil)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return Recording{}, fmt.Errorf("reads of the block daemon: %w", err)
	}
	return r, nil
}

// Booted tells the daemon that the boot is over, so that it may fetch the pieces for later reads.
func (c Client) Booted(ctx context.Context) error {
	if _, err := c.do(ctx, http.MethodPost, "/booted", nil); err != nil {
		return fmt.Errorf("tell the block daemon that the boot is over: %w", err)
	}
	return nil
}

// HoldMost bounds the objects that a daemon holds, in bytes of their compressed form.
const HoldMost = 16 << 20

// Held counts the objects that a block daemon holds in memory.
type Held struct {
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
	Left    int   `json:"left,omitempty"` // objects that did not fit
}

// Hold switches holding on or off. While it is on, the daemon keeps the objects that it fetches for reads, in
// addition to those that it holds already. Objects of the boot pack that are in memory are not counted.
func (c Client) Hold(ctx context.Context, on bool) (h Held, err error) {
	path := "/hold"
	if on {
		path += "?on=1"
	}
	b, err := c.do(ctx, http.MethodPost, path, nil)
	if err == nil {
		err = json.Unmarshal(b, &h)
	}
	if err != nil {
		return h, fmt.Errorf("tell the block daemon what to hold: %w", err)
	}
	return h, nil
}

// Leave takes the node out of its swarm, so that its peers use other nodes before this one is gone.
func (c Client) Leave(ctx context.Context) error {
	if _, err := c.do(ctx, http.MethodPost, "/leave", nil); err != nil {
		return fmt.Errorf("leave the swarm: %w", err)
	}
	return nil
}

func (c Client) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", c.Socket)
		}}}
	req, err := http.NewRequestWithContext(ctx, method, "http://block"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(b))
	}
	return b, err
}
