package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
)

// Loader is a build of iPXE that machines are sent.
type Loader struct {
	Firmware string `json:"firmware"` // "bios", "efi-x64", "efi-ia32", "efi-arm64"
	File     string `json:"file"`     // that firmware asks for
	From     string `json:"from"`     // path on the server
	Imported bool   `json:"imported"` // by the site
	Version  string `json:"version"`  // "": it does not say
	Digests  bool   `json:"digests"`  // it verifies kernel and initramfs that come from neighbours
	Signed   bool   `json:"signed"`   // it has a signature for Secure Boot
	Size     int    `json:"size"`     // bytes
	SHA256   string `json:"sha256"`
}

// LoaderList answers GET /v1/loaders.
type LoaderList struct {
	Loaders []Loader `json:"loaders"`
}

// LoaderType is the media type of a loader's bytes, the body of POST /v1/loaders.
const LoaderType = "application/octet-stream"

// Loaders returns the builds that machines are sent, one for each kind of firmware.
func (c *Client) Loaders(ctx context.Context) (out []Loader, err error) {
	var l LoaderList
	err = c.call(ctx, "GET", "/v1/loaders", nil, nil, &l)
	return l.Loaders, err
}

// Loader returns the build that machines with this firmware are sent.
func (c *Client) Loader(ctx context.Context, firmware string) (out Loader, err error) {
	err = c.call(ctx, "GET", "/v1/loaders/"+url.PathEscape(firmware), nil, nil, &out)
	return out, err
}

// ImportLoader makes a build the one that machines of its firmware are sent.
func (c *Client) ImportLoader(ctx context.Context, data []byte) (out Loader, err error) {
	sum := sha256.Sum256(data)
	query := url.Values{"sha256": {hex.EncodeToString(sum[:])}}
	res, err := c.sendBytes(ctx, "POST", "/v1/loaders", query, LoaderType, bytes.NewReader(data))
	if err != nil {
		return out, err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		return out, fmt.Errorf("POST /v1/loaders: decode answer: %w", err)
	}
	return out, nil
}

// DeleteLoader removes the imported build for a kind of firmware.
func (c *Client) DeleteLoader(ctx context.Context, firmware string) error {
	return c.call(ctx, "DELETE", "/v1/loaders/"+url.PathEscape(firmware), nil, nil, nil)
}
