package bootpack

import (
	"fmt"

	"aead.dev/minisign"

	"pando/internal/fleet"
	"pando/internal/image"
)

// trustedComment begins the trusted comment of a pack's signature; version and sequence follow.
const trustedComment = "pando pack "

// Sign returns the detached signature of the exact bytes of a boot pack's map, or nil if data is no map.
func Sign(key minisign.PrivateKey, data []byte) []byte {
	version, sequence, err := readHead(data)
	if err != nil {
		return nil
	}
	return image.SignBytes(key, data, comment(version, sequence))
}

func comment(version fleet.Digest, sequence uint64) string {
	return fmt.Sprintf("%s%s %d", trustedComment, version, sequence)
}

// Verify checks that one of keys (minisign public keys, base64) signed the map of a boot pack for version, and only
// then decodes it. The error wraps image.ErrWrongSignature if the signature is at fault.
func Verify(data, signature []byte, version fleet.Digest, keys ...string) (Map, error) {
	if len(data) > MaxSize {
		return Map{}, fmt.Errorf("verify boot pack: %w: %d bytes are too many", image.ErrWrongSignature, len(data))
	}
	found, sequence, err := readHead(data)
	if err != nil {
		return Map{}, fmt.Errorf("verify boot pack: %w", err)
	}
	if found != version {
		return Map{}, fmt.Errorf("verify boot pack: it is for version %s, not for %s", found.Short(), version.Short())
	}
	if err := (image.Trust{Keys: keys}).VerifyBytes(data, signature, comment(version, sequence)); err != nil {
		return Map{}, fmt.Errorf("verify boot pack of version %s: %w", version.Short(), err)
	}
	return Decode(data)
}

// Renew returns new signatures of the map by the keys in with, followed by the existing signatures by the keys in
// keep.
func Renew(data, signature []byte, keep []string, with ...minisign.PrivateKey) []byte {
	version, sequence, err := readHead(data)
	if err != nil {
		return signature
	}
	files := make([][]byte, 0, len(with)+1)
	for _, k := range with {
		files = append(files, Sign(k, data))
	}
	return image.JoinSignatures(append(files, image.SignaturesBy(data, signature, comment(version, sequence), keep))...)
}
