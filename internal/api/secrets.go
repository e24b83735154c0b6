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

// SecretSet is the body of PUT /v1/secrets. What is absent stays as it is.
type SecretSet struct {
	Name  string         `json:"name"`
	Value []byte         `json:"value,omitempty"`
	For   *[]fleet.Scope `json:"for,omitempty"` // nodes that may have it, as a whole
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

// DeleteSecret forgets a secret. Files that need it are not made any more; nodes that have them keep them until
// they reboot.
func (c *Client) DeleteSecret(ctx context.Context, name string) error {
	return c.call(ctx, "DELETE", "/v1/secrets/"+url.PathEscape(name), nil, nil, nil)
}

// ApproveNodes lets the latest boots of some nodes have their secrets, and with the policy tpm all boots of the
// machines that they are.
func (c *Client) ApproveNodes(ctx context.Context, s NodeSelection) (Changes, error) {
	return ask[Changes](ctx, c, "POST", "/v1/nodes/approve", s)
}

// ResetNodes forgets the TPM keys of nodes: the next key has to be approved.
func (c *Client) ResetNodes(ctx context.Context, s NodeSelection) (Changes, error) {
	return ask[Changes](ctx, c, "POST", "/v1/nodes/reset", s)
}

// KeyPrint is a public key of a TPM for people: 16 hex digits of its SHA-256, "" for none.
func KeyPrint(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}
