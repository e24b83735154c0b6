package identity

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
)

// sealer is AES-256-GCM with a random nonce in front, by a key that is derived from the site's secret.
func (k Keys) sealer() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.derive(purposeSecrets, "", 32))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// SealSecret encrypts the value of a secret. Its name is sealed with it, so that no secret can be put in the place of another.
func (k Keys) SealSecret(name string, value []byte) ([]byte, error) {
	a, err := k.sealer()
	if err != nil {
		return nil, fmt.Errorf("seal secret %s: %w", name, err)
	}
	return a.Seal(nil, nil, value, []byte(name)), nil
}

// OpenSecret decrypts what SealSecret made.
func (k Keys) OpenSecret(name string, sealed []byte) ([]byte, error) {
	a, err := k.sealer()
	if err == nil {
		var value []byte
		if value, err = a.Open(nil, nil, sealed, []byte(name)); err == nil {
			return value, nil
		}
	}
	return nil, fmt.Errorf("open secret %s: %w: was the file keys/%s replaced? set the secret again", name, err, SecretFile)
}
