package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"aead.dev/minisign"
)

// MaxSignature is the largest detached signature, in bytes.
const MaxSignature = 4 << 10

// trustedComment starts the signed comment of a manifest's signature. With it a signature that the same key
// made for something else cannot pass for one of a manifest.
const trustedComment = "pando manifest "

// Errors of Verify.
var (
	ErrUnsigned       = errors.New("no signature")
	ErrWrongSignature = errors.New("wrong signature")
)

// Sign returns the detached signature of a manifest's exact bytes, in the format of minisign. The same key
// and bytes give the same signature.
func Sign(key minisign.PrivateKey, manifest []byte) []byte {
	return sign(key, manifest, trustedComment+string(Version(manifest)))
}

func sign(key minisign.PrivateKey, data []byte, comment string) []byte {
	r := minisign.NewReader(bytes.NewReader(data)) // the pre-hashed kind, which is what minisign makes today
	_, _ = io.Copy(io.Discard, r)                  // reads from memory
	return r.SignWithComments(key, comment, fmt.Sprintf("key %016X", key.ID()))
}

// Verify checks that one of keys (minisign public keys, base64) signed manifest, and only then reads it.
// The error is ErrUnsigned or ErrWrongSignature.
func Verify(manifest, signature []byte, keys ...string) (Manifest, error) {
	if err := verifyManifest(manifest, signature, keys); err != nil {
		return Manifest{}, fmt.Errorf("manifest %s: %w", Version(manifest).Short(), err)
	}
	return Decode(manifest)
}

func verifyManifest(manifest, signature []byte, keys []string) error {
	if len(manifest) > MaxManifest {
		return fmt.Errorf("%w: %d bytes are too many", ErrWrongSignature, len(manifest))
	}
	err := verify(manifest, signature, trustedComment+string(Version(manifest)), keys)
	if errors.Is(err, ErrUnsigned) {
		return fmt.Errorf("%w; build it with `pando image build`, which signs with the site key", err)
	}
	return err
}

// verify checks that one of keys signed data with comment as the trusted comment.
func verify(data, signature []byte, comment string, keys []string) error {
	if len(signature) > MaxSignature {
		return fmt.Errorf("%w: %d bytes are too many", ErrWrongSignature, len(signature))
	}
	if len(strings.TrimSpace(string(signature))) == 0 {
		return ErrUnsigned
	}
	var s minisign.Signature
	if err := s.UnmarshalText(signature); err != nil {
		return fmt.Errorf("%w: not a minisign signature: %w", ErrWrongSignature, err)
	}
	if s.TrustedComment != comment {
		return fmt.Errorf("%w: it is for %q", ErrWrongSignature, s.TrustedComment)
	}
	known := make([]string, 0, len(keys))
	for _, text := range keys {
		var key minisign.PublicKey
		if err := key.UnmarshalText([]byte(text)); err != nil {
			return fmt.Errorf("trust key %q: %w", text, err)
		}
		if key.ID() == s.KeyID {
			if !minisign.Verify(key, data, signature) {
				return fmt.Errorf("%w by key %016X", ErrWrongSignature, s.KeyID)
			}
			return nil
		}
		known = append(known, fmt.Sprintf("%016X", key.ID()))
	}
	return fmt.Errorf("%w: by key %016X, trusted are %s", ErrWrongSignature, s.KeyID, strings.Join(known, ", "))
}
