package identity

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
)

// TokenLength is the length of a token's text: 32 bytes in base64url without padding.
const TokenLength = 43

// NewToken returns a new token: 256 random bits as text.
func NewToken() string {
	var b [32]byte
	rand.Read(b[:]) // crypto/rand.Read never fails; it ends the program instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// NewBootID returns a new boot id: 16 random hex digits.
func NewBootID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
