package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"aead.dev/minisign"
)

// MaxSignature is the largest detached signature in bytes: the signatures of MaxSignatures keys.
const MaxSignature = 4 << 10

// trustedComment begins the trusted comment of a manifest's signature. It keeps a signature that the same key made
// for another kind of data from being valid for a manifest.
const trustedComment = "pando manifest "

// Errors of Verify.
var (
	ErrUnsigned       = errors.New("no signature")
	ErrWrongSignature = errors.New("wrong signature")
	// ErrRevoked is an ErrWrongSignature: the signature is correct, but its key is revoked.
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

// SignBytes returns the detached signature of data with a trusted comment. The comment says what data is, so that the
// signature is not valid for another kind of data.
func SignBytes(key minisign.PrivateKey, data []byte, comment string) []byte {
	r := minisign.NewReader(bytes.NewReader(data)) // the pre-hashed kind, which minisign makes today
	_, _ = io.Copy(io.Discard, r)                  // reads from memory
	return r.SignWithComments(key, comment, fmt.Sprintf("key %016X", key.ID()))
}

// Verify checks that one of keys (minisign public keys, base64) signed manifest, and only then decodes it. The error
// is ErrUnsigned or ErrWrongSignature.
func Verify(manifest, signature []byte, keys ...string) (Manifest, error) {
	return Trust{Keys: keys}.Verify(manifest, signature)
}

// Verify checks that a trusted key signed manifest, and only then decodes it. The error is ErrUnsigned, ErrRevoked or
// ErrWrongSignature.
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
