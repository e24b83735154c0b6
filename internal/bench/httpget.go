package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ErrAnswer is that there was an answer, of which asking again makes no other.
var ErrAnswer = errors.New("not what was asked for")

// MostSmall bounds a manifest, a script, and other answers that are small, in bytes.
const MostSmall = 1 << 20

// Get fetches a file whole, of so many bytes at most.
func Get(ctx context.Context, client *http.Client, url string, most int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %w: %s", url, ErrAnswer, resp.Status)
	}
	return data, err
}
