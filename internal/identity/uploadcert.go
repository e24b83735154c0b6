package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
)

// Upload is the certificate and key, as PEM, with which a node's program uploads for one boot.
type Upload struct {
	Key         []byte // secret, PKCS #8
	Certificate []byte // certificate of Key; its common name is the boot ID
	Authority   []byte // certificate of the authority that issued the server's certificates
}

// Upload makes the certificate of one boot. Its key is derived from the secret and the boot ID, so the server stores
// nothing, and it is useless for another boot.
func (k Keys) Upload(boot string) (Upload, error) {
	var u Upload
	key := k.uploadKey(boot)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: boot},
		NotBefore:    validFrom,
		NotAfter:     validTo,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return u, fmt.Errorf("make certificate of boot %s: %w", boot, err)
	}
	ca, err := x509.CreateCertificate(
		rand.Reader,
		authorityTemplate(),
		authorityTemplate(),
		k.Server.Public(),
		k.Server,
	)
	if err != nil {
		return u, fmt.Errorf("make certificate of the server's authority: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return u, err
	}
	u.Key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	u.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	u.Authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca})
	return u, nil
}

func (k Keys) uploadKey(boot string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(k.derive(purposeUpload, boot, ed25519.SeedSize))
}

// UploadBy returns the boot ID of a connection whose client showed a certificate of Upload, or "". The handshake has
// proved that the client has the key. Nothing else in the certificate is trusted.
func (k Keys) UploadBy(c *tls.ConnectionState) string {
	if c == nil || len(c.PeerCertificates) == 0 {
		return ""
	}
	boot := c.PeerCertificates[0].Subject.CommonName
	shown, ok := c.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok || boot == "" || !shown.Equal(k.uploadKey(boot).Public()) {
		return ""
	}
	return boot
}
