package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Certificates of the control port are always valid, because nodes have no clock when they connect.
var (
	validFrom = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	validTo   = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) // RFC 5280 section 4.1.2.5: no end
)

// authority is the issuer of the certificates of the server's key; they are signed by that key itself.
var authority = pkix.Name{CommonName: "pando authority"}

// ServerTLS returns the TLS configuration of the control port: TLS 1.3 with certificates of the server's key. Pando's
// clients only pin the key (api.PinnedTLS). Other programs trust Upload.Authority and check the address, so there is a
// certificate per address. Clients may show one too: see Keys.UploadBy.
func ServerTLS(key ed25519.PrivateKey) (*tls.Config, error) {
	c := &addressed{key: key, made: map[netip.Addr]*tls.Certificate{}}
	if _, err := c.of(netip.Addr{}); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequestClientCert,
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			var at netip.Addr
			if a, ok := h.Conn.LocalAddr().(*net.TCPAddr); ok {
				at = a.AddrPort().Addr().Unmap().WithZone("")
			}
			return c.of(at)
		},
	}, nil
}

// addressed makes certificates of a key, one per local address that clients connect to. A machine has few.
type addressed struct {
	key ed25519.PrivateKey

	mu   sync.Mutex
	made map[netip.Addr]*tls.Certificate
}

func (c *addressed) of(at netip.Addr) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.made[at]; have != nil {
		return have, nil
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(
			2,
		), Subject: pkix.Name{CommonName: "pando"}, DNSNames: []string{"pando"}, NotBefore: validFrom,
		NotAfter: validTo,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if at.IsValid() {
		template.IPAddresses = []net.IP{at.AsSlice()}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authorityTemplate(), c.key.Public(), c.key)
	if err != nil {
		return nil, fmt.Errorf("make certificate of the server's key: %w", err)
	}
	c.made[at] = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: c.key}
	return c.made[at], nil
}

func authorityTemplate() *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(1), Subject: authority, NotBefore: validFrom, NotAfter: validTo,
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true}
}
