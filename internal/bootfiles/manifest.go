package bootfiles

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"pando/internal/fleet"
	"pando/internal/image"
)

// SignedManifest fetches the manifest of a version and its signature, and checks both: the manifest's digest against
// the version, the signature against the trusted keys.
func SignedManifest(
	ctx context.Context,
	client *http.Client,
	server string,
	version fleet.Digest,
	trust image.Trust,
) (man image.Manifest, data, signature []byte, err error) {
	url := strings.TrimSuffix(server, "/") + "/m/" + strings.TrimPrefix(string(version), "sha256:")
	if data, err = get(ctx, client, url, image.MaxManifest); err != nil {
		return man, nil, nil, err
	}
	if got := image.Version(data); got != version {
		return man, nil, nil, &wrongFileError{got, version}
	}
	if signature, err = get(ctx, client, url+".minisig", image.MaxSignature); err != nil {
		return man, nil, nil, fmt.Errorf("signature: %w", err)
	}
	man, err = trust.Verify(data, signature)
	return man, data, signature, err
}

// wrongFileError means that a source sent the manifest of another version than the requested one.
type wrongFileError struct{ got, want fleet.Digest }

func (e *wrongFileError) Error() string {
	return fmt.Sprintf("manifest has digest %s, assigned is %s", e.got.Short(), e.want.Short())
}

// StatusError is an answer with another HTTP status than 200.
type StatusError struct {
	url, status string
	Code        int
}

func (e *StatusError) Error() string { return "GET " + e.url + ": " + e.status }

// get fetches a small file whole. A file of more than limit bytes is an error.
func get(ctx context.Context, client *http.Client, url string, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, &StatusError{url, resp.Status, resp.StatusCode}
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("GET %s: more than %d bytes", url, limit)
	}
	return data, err
}
