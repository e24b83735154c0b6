package api

import (
	"context"
	"net/url"
	"time"

	"pando/internal/fleet"
)

// Keys answers GET /v1/keys: the public keys of this site.
type Keys struct {
	Site    string `json:"site"`    // minisign public key that signs manifests
	Server  string `json:"server"`  // Ed25519 public key, base64: pins TLS and signs assignments
	Signing []Key  `json:"signing"` // all keys that sign or have signed versions; the one that signs first comes first
}

// States of a key.
const (
	KeySigns   = "signs"   // trusted, and the first key that signs new versions
	KeyTrusted = "trusted" // versions that it signed boot
	KeyRevoked = "revoked" // versions that only it signed do not boot
)

// Key is a key that signs versions, or has signed some.
type Key struct {
	Name     string    `json:"name"`
	ID       string    `json:"id"`     // as minisign shows it: 16 hex digits
	Public   string    `json:"public"` // minisign public key
	State    string    `json:"state"`  // "signs", "trusted", "revoked"
	Here     bool      `json:"here"`   // the server has the secret half
	Created  time.Time `json:"created,omitzero"`
	Revoked  time.Time `json:"revoked,omitzero"`
	Versions int       `json:"versions"` // versions in the store that it signed
	Only     int       `json:"only"`     // of these, versions that no other trusted key signed
}

// KeyCreate is the body of POST /v1/keys.
type KeyCreate struct {
	Name string `json:"name"`
	// minisign public key whose secret half is on another machine; "": the server generates a key
	Public string `json:"public,omitempty"`
}

// KeyUse is the body of POST /v1/keys/{name}/rotate and of POST /v1/keys/{name}/revoke.
type KeyUse struct {
	DryRun bool `json:"dry_run,omitempty"`
	Force  bool `json:"force,omitempty"` // revoke even if groups or nodes then lack a version that boots
}

// KeyChange answers rotate and revoke: the changes that were made or, in a dry run, would be.
type KeyChange struct {
	DryRun bool `json:"dry_run"`
	Key    Key  `json:"key"`
	Signed int  `json:"signed"` // versions that got a signature
	// rotate: versions that this key has not signed; revoke: versions that no longer boot
	Without []KeyVersion `json:"without"`
}

// KeyVersion is a version that lacks a signature.
type KeyVersion struct {
	Version fleet.Digest `json:"version"`
	InUse   []string     `json:"in_use,omitempty"` // "group lab", "node pc001"
}

// SignatureAdd is the body of POST /v1/signatures: a signature that was made on the machine that has the key.
type SignatureAdd struct {
	Version   fleet.Digest `json:"version"`
	Signature string       `json:"signature"` // minisign, over the manifest
}

// Keys returns the public keys of the site.
func (c *Client) Keys(ctx context.Context) (Keys, error) { return get[Keys](ctx, c, "/v1/keys", nil) }

// CreateKey adds a key. Nodes trust it from their next boot on.
func (c *Client) CreateKey(ctx context.Context, k KeyCreate) (Key, error) {
	return ask[Key](ctx, c, "POST", "/v1/keys", k)
}

// RotateKey makes a key the first that signs, and signs all versions with it. It creates the key if there is none of
// that name.
func (c *Client) RotateKey(ctx context.Context, name string, u KeyUse) (KeyChange, error) {
	return ask[KeyChange](ctx, c, "POST", "/v1/keys/"+url.PathEscape(name)+"/rotate", u)
}

// RevokeKey makes nodes distrust a key.
func (c *Client) RevokeKey(ctx context.Context, name string, u KeyUse) (KeyChange, error) {
	return ask[KeyChange](ctx, c, "POST", "/v1/keys/"+url.PathEscape(name)+"/revoke", u)
}

// AddSignature adds a signature to a version, and returns the key that made it.
func (c *Client) AddSignature(ctx context.Context, s SignatureAdd) (Key, error) {
	return ask[Key](ctx, c, "POST", "/v1/signatures", s)
}
