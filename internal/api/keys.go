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
	Signing []Key  `json:"signing"` // all keys that sign, or signed, versions; the one that signs first
}

// States of a key.
const (
	KeySigns   = "signs"   // it is trusted, and the first to sign what is made now
	KeyTrusted = "trusted" // what it signed boots
	KeyRevoked = "revoked" // what it alone signed does not boot
)

// Key is a key that signs versions, or did.
type Key struct {
	Name     string    `json:"name"`
	ID       string    `json:"id"`     // as minisign shows it: 16 hex digits
	Public   string    `json:"public"` // minisign public key
	State    string    `json:"state"`  // "signs", "trusted", "revoked"
	Here     bool      `json:"here"`   // the server has the secret half
	Created  time.Time `json:"created,omitzero"`
	Revoked  time.Time `json:"revoked,omitzero"`
	Versions int       `json:"versions"` // versions in the store that it signed
	Only     int       `json:"only"`     // of these, the ones that no other trusted key signed
}

// KeyCreate is the body of POST /v1/keys.
type KeyCreate struct {
	Name string `json:"name"`
	// minisign public key whose secret half is kept on another machine; "": the server makes one
	Public string `json:"public,omitempty"`
}

// KeyUse is the body of POST /v1/keys/{name}/rotate and of POST /v1/keys/{name}/revoke.
type KeyUse struct {
	DryRun bool `json:"dry_run,omitempty"`
	Force  bool `json:"force,omitempty"` // revoke also when groups or nodes want a version that does not boot then
}

// KeyChange answers both: the changes that were made or, in a dry run, would be.
type KeyChange struct {
	DryRun bool `json:"dry_run"`
	Key    Key  `json:"key"`
	Signed int  `json:"signed"` // versions that have a new signature
	// rotate: versions that this key has not signed; revoke: versions that do not boot any more
	Without []KeyVersion `json:"without"`
}

// KeyVersion is a version that lacks a signature.
type KeyVersion struct {
	Version fleet.Digest `json:"version"`
	InUse   []string     `json:"in_use,omitempty"` // "group lab", "node pc001"
}

// SignatureAdd is the body of POST /v1/signatures: a version was signed where its key is kept.
type SignatureAdd struct {
	Version   fleet.Digest `json:"version"`
	Signature string       `json:"signature"` // minisign, over the manifest
}

// Keys shows the public keys of the site.
func (c *Client) Keys(ctx context.Context) (Keys, error) { return get[Keys](ctx, c, "/v1/keys", nil) }

// CreateKey makes another key that nodes trust from their next boot on.
func (c *Client) CreateKey(ctx context.Context, k KeyCreate) (Key, error) {
	return ask[Key](ctx, c, "POST", "/v1/keys", k)
}

// RotateKey makes a key the first that signs, and signs all versions with it. If there is no key of that name it makes
// one.
func (c *Client) RotateKey(ctx context.Context, name string, u KeyUse) (KeyChange, error) {
	return ask[KeyChange](ctx, c, "POST", "/v1/keys/"+url.PathEscape(name)+"/rotate", u)
}

// RevokeKey ends the trust in a key.
func (c *Client) RevokeKey(ctx context.Context, name string, u KeyUse) (KeyChange, error) {
	return ask[KeyChange](ctx, c, "POST", "/v1/keys/"+url.PathEscape(name)+"/revoke", u)
}

// AddSignature adds a signature to a version, and returns which key made it.
func (c *Client) AddSignature(ctx context.Context, s SignatureAdd) (Key, error) {
	return ask[Key](ctx, c, "POST", "/v1/signatures", s)
}
