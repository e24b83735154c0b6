package identity

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
)

// purposeSeal is that of the key which small secrets in the record are sealed with.
const purposeSeal = "pando sealed secrets v1\x00"

// sealVersion begins what is sealed.
const sealVersion = 1

// ErrSealed means that something was not sealed by this site, or for something else, or was changed.
var ErrSealed = errors.New("it cannot be opened with this site's keys: were they replaced? give it once more")

// Seal encrypts a small secret (AES-256-GCM with a random nonce), so that who reads the record and not the keys
// does not have it. What it is for is bound to it: a password of one node cannot be taken for that of another.
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
	if err != nil { // only for another size of the key
		panic("identity: " + err.Error())
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic("identity: " + err.Error())
	}
	return aead
}
