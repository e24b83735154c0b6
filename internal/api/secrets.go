package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"

	"pando/internal/fleet"
)

// SecretList answers GET /v1/secrets. It never has values.
type SecretList struct {
	Secrets []fleet.Secret `json:"secrets"`
}

// SecretSet is the body of PUT /v1/secrets. A nil field stays as it is.
type SecretSet struct {
	Name  string         `json:"name"`
	Value []byte         `json:"value,omitempty"`
	For   *[]fleet.Scope `json:"for,omitempty"` // nodes that may have it; replaces the whole list
}

// NodeSelection is the body of POST /v1/nodes/approve and POST /v1/nodes/reset.
type NodeSelection struct {
	Select string `json:"select"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// Secrets lists secrets, without their values.
func (c *Client) Secrets(ctx context.Context) ([]fleet.Secret, error) {
	l, err := get[SecretList](ctx, c, "/v1/secrets", nil)
	return l.Secrets, err
}

// SetSecret sets the value of a secret, or its scope.
func (c *Client) SetSecret(ctx context.Context, s SecretSet) (fleet.Secret, error) {
	return ask[fleet.Secret](ctx, c, "PUT", "/v1/secrets", s)
}

// DeleteSecret deletes a secret. Config files that use it are no longer rendered; nodes that have them keep them until
// they reboot.
func (c *Client) DeleteSecret(ctx context.Context, name string) error {
	return c.call(ctx, "DELETE", "/v1/secrets/"+url.PathEscape(name), nil, nil, nil)
}

// ApproveNodes lets the latest boots of the selected nodes get their secrets. With the policy tpm it approves the
// machines, so that all their boots get them.
func (c *Client) ApproveNodes(ctx context.Context, s NodeSelection) (Changes, error) {
	return ask[Changes](ctx, c, "POST", "/v1/nodes/approve", s)
}

// ResetNodes removes the approved TPM keys of nodes: the next key has to be approved.
func (c *Client) ResetNodes(ctx context.Context, s NodeSelection) (Changes, error) {
	return ask[Changes](ctx, c, "POST", "/v1/nodes/reset", s)
}

// KeyPrint shortens a public key of a TPM for people: 16 hex digits of its SHA-256, "" for an empty key.
func KeyPrint(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}
