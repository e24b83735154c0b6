package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ErrAnswer means that the server sent a wrong answer, so that another attempt is pointless.
var ErrAnswer = errors.New("not what was asked for")

// MostSmall bounds manifests, scripts and other small answers, in bytes.
const MostSmall = 1 << 20

// Get fetches a file of at most the given number of bytes.
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
