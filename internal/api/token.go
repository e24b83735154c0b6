package api

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"
)

const tokenPrefix = "pando_"

// FormatToken joins an operator's secret and the server's public key into the string for PANDO_TOKEN:
// "pando_SECRET.KEY", each part in unpadded base64url. The server checks the secret; the client checks the key, so that
// it sends the secret to no other server.
func FormatToken(secret string, server ed25519.PublicKey) string {
	return tokenPrefix + secret + "." + base64.RawURLEncoding.EncodeToString(server)
}

// ParseToken is the inverse of FormatToken.
func ParseToken(s string) (secret string, server ed25519.PublicKey, err error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(s), tokenPrefix)
	secret, key, two := strings.Cut(rest, ".")
	raw, err := base64.RawURLEncoding.DecodeString(key)
	if !ok || !two || secret == "" || err != nil || len(raw) != ed25519.PublicKeySize {
		return "", nil, fmt.Errorf(
			"token is not of the form %sSECRET.KEY that `pando token create` prints",
			tokenPrefix,
		)
	}
	return secret, ed25519.PublicKey(raw), nil
}
