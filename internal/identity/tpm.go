package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
)

// VerifyTPM checks a signature of a TPM's key (a point on P-256, 64 bytes) over a digest, and returns the key in the
// form that is stored.
func VerifyTPM(key, signature []byte, digest [32]byte) (string, error) {
	if len(key) != 64 || len(signature) != 64 {
		return "", errors.New("proof of a TPM: key and signature have 64 bytes each")
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append([]byte{4}, key...))
	if err != nil {
		return "", fmt.Errorf("proof of a TPM: %w", err)
	}
	r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
	if !ecdsa.Verify(public, digest[:], r, s) {
		return "", errors.New("proof of a TPM: wrong signature")
	}
	return base64.StdEncoding.EncodeToString(key), nil
}
