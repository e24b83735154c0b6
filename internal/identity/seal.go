package identity

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
)

// purposeSeal is the purpose of the key that seals small secrets in the registry.
const purposeSeal = "pando sealed secrets v1\x00"

// sealVersion is the first byte of a sealed secret.
const sealVersion = 1

// ErrSealed means that a secret was not sealed by this site, was sealed for another use, or was changed.
var ErrSealed = errors.New("it cannot be opened with this site's keys: were they replaced? set it again")

// Seal encrypts a small secret (AES-256-GCM with a random nonce), so that the registry without the keys does not reveal
// it. The use is authenticated too: a password of one node cannot be taken for that of another.
func (k Keys) Seal(use string, secret []byte) []byte {
	nonce := make([]byte, 12)
	_, _ = rand.Read(nonce) // never fails
	return k.sealer().Seal(append([]byte{sealVersion}, nonce...), nonce, secret, []byte(use))
}

// Open returns what was sealed for a use, or ErrSealed.
func (k Keys) Open(use string, sealed []byte) ([]byte, error) {
	if len(sealed) < 13 || sealed[0] != sealVersion {
		return nil, ErrSealed
	}
	secret, err := k.sealer().Open(nil, sealed[1:13], sealed[13:], []byte(use))
	if err != nil {
		return nil, ErrSealed
	}
	return secret, nil
}

func (k Keys) sealer() cipher.AEAD {
	block, err := aes.NewCipher(k.derive(purposeSeal, "", 32))
	if err != nil { // it fails only for another key size
		panic("identity: " + err.Error())
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic("identity: " + err.Error())
	}
	return aead
}
