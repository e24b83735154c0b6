package image

import (
	"fmt"

	"aead.dev/minisign"

	"pando/internal/fleet"
)

// packComment starts the signed comment of a pack's signature; the version and the sequence follow.
const packComment = "pando pack "

// SignPack returns the detached signature of the exact bytes of a boot pack's map, nil for what is no map.
func SignPack(key minisign.PrivateKey, data []byte) []byte {
	version, sequence, err := packHead(data)
	if err != nil {
		return nil
	}
	return sign(key, data, packTrusted(version, sequence))
}

func packTrusted(version fleet.Digest, sequence uint64) string {
	return fmt.Sprintf("%s%s %d", packComment, version, sequence)
}

// VerifyPack checks that one of keys (minisign public keys, base64) signed the map of a boot pack for
// version, and only then reads it. The error wraps ErrWrongSignature when the signature is at fault.
func VerifyPack(data, signature []byte, version fleet.Digest, keys ...string) (Pack, error) {
	if len(data) > MaxPack {
		return Pack{}, fmt.Errorf("verify boot pack: %w: %d bytes are too many", ErrWrongSignature, len(data))
	}
	found, sequence, err := packHead(data)
	if err != nil {
		return Pack{}, fmt.Errorf("verify boot pack: %w", err)
	}
	if found != version {
		return Pack{}, fmt.Errorf("verify boot pack: it is for version %s, not for %s", found.Short(), version.Short())
	}
	if err := (Trust{Keys: keys}).verify(data, signature, packTrusted(version, sequence)); err != nil {
		return Pack{}, fmt.Errorf("verify boot pack of version %s: %w", version.Short(), err)
	}
	return DecodePack(data)
}

// RenewPack returns the signatures of a map that keys made, and those of further keys that sign it now, first.
func RenewPack(data, signature []byte, keep []string, with ...minisign.PrivateKey) []byte {
	version, sequence, err := packHead(data)
	if err != nil {
		return signature
	}
	files := make([][]byte, 0, len(with)+1)
	for _, k := range with {
		files = append(files, SignPack(k, data))
	}
	return JoinSignatures(append(files, onlyBy(data, signature, packTrusted(version, sequence), keep))...)
}
