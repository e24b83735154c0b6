package image

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"aead.dev/minisign"
)

// Trust is the set of keys whose signatures are accepted.
type Trust struct {
	Keys    []string // minisign public keys, base64
	Revoked []string // keys that are not accepted, even if they are in Keys
}

// Accepted returns the accepted keys.
func (t Trust) Accepted() []string {
	var out []string
	for _, k := range t.Keys {
		if !slices.Contains(t.Revoked, k) {
			out = append(out, k)
		}
	}
	return out
}

// VerifyBytes checks that an accepted key signed data with comment as the trusted comment. Further signatures by
// other keys do not matter. The node's program, which every boot loads, contains this code, so it is written to be
// small.
func (t Trust) VerifyBytes(data, signature []byte, comment string) error {
	if len(signature) > MaxSignature {
		return fmt.Errorf("%w: %d bytes are too many", ErrWrongSignature, len(signature))
	}
	if len(bytes.TrimSpace(signature)) == 0 {
		return ErrUnsigned
	}
	var wrong error
	by := ""
	for rest := signature; len(rest) > 0; {
		var text []byte
		text, rest = nextSignature(rest)
		id, key, err := t.check(data, text, comment)
		switch {
		case err != nil && wrong == nil:
			wrong = err
		case err == nil && key != "" && slices.Contains(t.Revoked, key):
			wrong = fmt.Errorf("%w: signed by key %s only", ErrRevoked, id)
		case err == nil && key != "":
			return nil
		}
		by += " " + id
	}
	if wrong != nil {
		return wrong
	}
	return fmt.Errorf("%w: by key%s, trusted are %s", ErrWrongSignature, by, strings.Join(t.Accepted(), ", "))
}

// check returns the key in t that made a signature, or "" if none did. A wrong signature by such a key is an error.
func (t Trust) check(data, text []byte, comment string) (id, key string, err error) {
	var s minisign.Signature
	if err := s.UnmarshalText(text); err != nil {
		return "", "", fmt.Errorf("%w: not a minisign signature: %w", ErrWrongSignature, err)
	}
	id = KeyID(s.KeyID)
	if s.TrustedComment != comment {
		return id, "", fmt.Errorf("%w: it is for %q", ErrWrongSignature, s.TrustedComment)
	}
	for _, keys := range [][]string{t.Revoked, t.Keys} {
		for _, key := range keys {
			var k minisign.PublicKey
			if err := k.UnmarshalText([]byte(key)); err != nil {
				return id, "", fmt.Errorf("trust key %q: %w", key, err)
			}
			if k.ID() != s.KeyID {
				continue
			}
			if !minisign.Verify(k, data, text) {
				return id, "", fmt.Errorf("%w by key %s", ErrWrongSignature, id)
			}
			return id, key, nil
		}
	}
	return id, "", nil
}

// KeyID formats the ID of a key as minisign does. It names a key where the whole key would be too long.
func KeyID(id uint64) string { return fmt.Sprintf("%016X", id) }
