package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"aead.dev/minisign"
)

// MaxSignature is the largest detached signature, in bytes: that of MaxSignatures keys.
const MaxSignature = 4 << 10

// trustedComment starts the signed comment of a manifest's signature. With it a signature that the same key
// made for something else cannot pass for one of a manifest.
const trustedComment = "pando manifest "

// Errors of Verify.
var (
	ErrUnsigned       = errors.New("no signature")
	ErrWrongSignature = errors.New("wrong signature")
	// ErrRevoked is an ErrWrongSignature: the signature is good, and its key does not count any more.
	ErrRevoked = fmt.Errorf("%w: the key is revoked", ErrWrongSignature)
)

// Sign returns the detached signature of a manifest's exact bytes, in the format of minisign. The same key
// and bytes give the same signature.
func Sign(key minisign.PrivateKey, manifest []byte) []byte {
	return SignBytes(key, manifest, trustedComment+string(Version(manifest)))
}

// SignAll returns the signatures of several keys in one file.
func SignAll(manifest []byte, keys []minisign.PrivateKey) []byte {
	files := make([][]byte, len(keys))
	for i, k := range keys {
		files[i] = Sign(k, manifest)
	}
	return JoinSignatures(files...)
}

// SignBytes returns the detached signature of data, with comment as its trusted comment: what data is, so that a
// signature of one thing does not pass for that of another.
func SignBytes(key minisign.PrivateKey, data []byte, comment string) []byte {
	r := minisign.NewReader(bytes.NewReader(data)) // the pre-hashed kind, which is what minisign makes today
	_, _ = io.Copy(io.Discard, r)                  // reads from memory
	return r.SignWithComments(key, comment, fmt.Sprintf("key %016X", key.ID()))
}

// Verify checks that one of keys (minisign public keys, base64) signed manifest, and only then reads it.
// The error is ErrUnsigned or ErrWrongSignature.
func Verify(manifest, signature []byte, keys ...string) (Manifest, error) {
	return Trust{Keys: keys}.Verify(manifest, signature)
}

// Verify checks that a key that is trusted signed manifest, and only then reads it. The error is ErrUnsigned,
// ErrRevoked or ErrWrongSignature.
func (t Trust) Verify(manifest, signature []byte) (Manifest, error) {
	if err := t.verifyManifest(manifest, signature); err != nil {
		return Manifest{}, fmt.Errorf("manifest %s: %w", Version(manifest).Short(), err)
	}
	return Decode(manifest)
}

func (t Trust) verifyManifest(manifest, signature []byte) error {
	if len(manifest) > MaxManifest {
		return fmt.Errorf("%w: %d bytes are too many", ErrWrongSignature, len(manifest))
	}
	err := t.VerifyBytes(manifest, signature, trustedComment+string(Version(manifest)))
	if errors.Is(err, ErrUnsigned) {
		return fmt.Errorf("%w; build it with `pando image build`, which signs with the site key", err)
	}
	return err
}
