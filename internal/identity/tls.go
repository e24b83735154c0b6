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

// Certificates of the control channel are valid for ever: nodes have no clock when they connect.
var (
	validFrom = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	validTo   = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) // RFC 5280 section 4.1.2.5: no end
)

// authority is what the certificates of the server's key are signed in the name of, by the same key.
var authority = pkix.Name{CommonName: "pando authority"}

// ServerTLS is the server side of the control channel: TLS 1.3 with certificates of the server's key. Pando's own
// clients pin the key (api.PinnedTLS is their side) and read nothing else of the certificate. Programs that are not
// Pando's trust Authority and want to find the address that they asked, so there is a certificate for each address
// of this machine. Who has a certificate of its own may show it: see Keys.UploadBy.
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

// addressed makes certificates of a key, one for each address that somebody came to. A machine has few.
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
