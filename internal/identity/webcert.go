package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"pando/internal/secretfile"
)

// The site's own certificate authority, for browsers: they cannot pin keys and do not accept Ed25519.
const (
	WebAuthorityFile = "web-ca.crt" // PEM certificate that people import into browsers
	webAuthorityKey  = "web-ca.key" // PKCS #8, PEM

	webAuthorityLife = 10 * 365 * 24 * time.Hour
	webLife          = 90 * 24 * time.Hour // life of issued certificates; browsers refuse more than 398 days
	webRenew         = webLife / 3         // a certificate with less time left is replaced
	webLook          = time.Minute         // how often the files of a site's certificate are checked
)

// WebNames are the names and addresses that a certificate is valid for.
type WebNames struct {
	Hosts []string
	Addrs []netip.Addr
}

// WebCertificate is the current certificate for browsers.
type WebCertificate struct {
	make func() (*tls.Certificate, error)
	now  func() time.Time

	mu     sync.Mutex
	have   *tls.Certificate
	looked time.Time
}

// OwnWebCertificate issues certificates of the site's own authority. It makes the authority in dir if there is none.
func OwnWebCertificate(dir string, names WebNames, now func() time.Time) (*WebCertificate, error) {
	ca, err := webAuthority(dir, now())
	if err != nil {
		return nil, err
	}
	w := &WebCertificate{now: now}
	w.make = func() (*tls.Certificate, error) {
		if w.have != nil && w.have.Leaf.NotAfter.Sub(now()) > webRenew {
			return w.have, nil
		}
		return issueWeb(ca, names, now())
	}
	_, err = w.get()
	return w, err
}

// GivenWebCertificate reads certificate and key from files, and again when the files change.
func GivenWebCertificate(cert, key string, now func() time.Time) (*WebCertificate, error) {
	w := &WebCertificate{now: now, make: func() (*tls.Certificate, error) {
		c, err := keyPair(cert, key, secretfile.Rest)
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", cert, key, err)
		}
		return &c, nil
	}}
	_, err := w.get()
	return w, err
}

// TLS returns the TLS configuration of the server. TLS 1.2 is for old browsers; Go's cipher suites for it have forward
// secrecy.
func (w *WebCertificate) TLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return w.get() }}
}

// Hosts returns the names that the certificate is valid for.
func (w *WebCertificate) Hosts() []string {
	c, err := w.get()
	if err != nil {
		return nil
	}
	return c.Leaf.DNSNames
}

// get returns the current certificate. If a new one cannot be read or made, it returns the old one, because a renewal
// of the files may be half done.
func (w *WebCertificate) get() (*tls.Certificate, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.now(); w.have == nil || now.Sub(w.looked) >= webLook {
		w.looked = now
		c, err := w.make()
		if err != nil && w.have == nil {
			return nil, err
		}
		if err == nil {
			w.have = c
		}
	}
	return w.have, nil
}

// webAuthority reads the authority in dir, or makes one.
func webAuthority(dir string, now time.Time) (tls.Certificate, error) {
	certFile, keyFile := filepath.Join(dir, WebAuthorityFile), filepath.Join(dir, webAuthorityKey)
	var refused *KeyError
	ca, err := keyPair(certFile, keyFile, secretfile.Others)
	switch {
	case err == nil && now.Add(webLife).After(ca.Leaf.NotAfter):
		return ca, &KeyError{Path: certFile, Err: fmt.Errorf("ends at %s", ca.Leaf.NotAfter.Format(time.DateOnly)),
			hint: "move " + certFile + " and " + keyFile + " away: new ones are made, and browsers must import " +
				"the new certificate"}
	case err == nil, errors.As(err, &refused):
		return ca, err
	case !errors.Is(err, fs.ErrNotExist):
		return ca, &KeyError{
			Path: certFile,
			Err:  err,
			hint: "restore both files, or move both away to have new ones made",
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return ca, err
	}
	template := &x509.Certificate{
		SerialNumber: webSerial(),
		Subject:      pkix.Name{CommonName: "Pando of " + hostName()},
		NotBefore:    now.Add(-time.Hour),
		NotAfter: now.Add(
			webAuthorityLife,
		),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return ca, fmt.Errorf("make the authority for browsers: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return ca, err
	}
	// The key is written first: a certificate without a key would look like a lost key.
	err = writeFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)
	if err == nil {
		err = writeFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
	}
	if err != nil {
		return ca, fmt.Errorf("make the authority for browsers: %w", err)
	}
	return keyPair(certFile, keyFile, secretfile.Others)
}

// issueWeb makes a key and a certificate for it.
func issueWeb(ca tls.Certificate, names WebNames, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: webSerial(),
		Subject:      pkix.Name{CommonName: "Pando"},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(webLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     names.Hosts,
	}
	for _, a := range names.Addrs {
		template.IPAddresses = append(template.IPAddresses, a.Unmap().AsSlice())
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate for browsers: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der, ca.Certificate[0]}, PrivateKey: key, Leaf: leaf}, err
}

// webSerial returns 120 random bits; RFC 5280 section 4.1.2.2 allows at most 20 octets.
func webSerial() *big.Int {
	b := make([]byte, 15)
	rand.Read(b)
	return new(big.Int).SetBytes(b)
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "this site"
	}
	return name
}
