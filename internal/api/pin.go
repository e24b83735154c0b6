package api

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
)

// WrongKeyError means that the server that answered does not hold the pinned key.
type WrongKeyError struct {
	Want, Got ed25519.PublicKey // Got is nil if the certificate has no Ed25519 key
}

func (e *WrongKeyError) Error() string {
	return fmt.Sprintf("server shows key %s, the pinned one is %s", encodeKey(e.Got), encodeKey(e.Want))
}

// PinnedTLS is the client side of the control port (8443): TLS 1.3 with exactly this server key. Certificate chains,
// names and dates are ignored (nodes have no clock and servers no name); the handshake proves that the server holds the
// key.
func PinnedTLS(key ed25519.PublicKey) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // replaced by the comparison below
		VerifyConnection: func(s tls.ConnectionState) error {
			return checkKey(s.PeerCertificates, key)
		},
	}
}

func checkKey(chain []*x509.Certificate, want ed25519.PublicKey) error {
	if len(chain) == 0 {
		return errors.New("server shows no certificate")
	}
	got, _ := chain[0].PublicKey.(ed25519.PublicKey)
	if len(want) != ed25519.PublicKeySize || !want.Equal(got) {
		return &WrongKeyError{Want: want, Got: got}
	}
	return nil
}

func encodeKey(k ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(k) }
