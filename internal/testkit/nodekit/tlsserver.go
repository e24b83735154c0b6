package nodekit

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"math/big"
	"net/http"
	"net/http/httptest"
	"time"
)

// TLSServer starts a TLS 1.3 server with its own key. It returns the key in the form that nodes have it.
func TLSServer(t T, h http.HandlerFunc) (url, key string) {
	t.Helper()
	_, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return TLSServerOf(t, priv, h)
}

// TLSServerOf is TLSServer with a given key.
func TLSServerOf(t T, priv ed25519.PrivateKey, h http.HandlerFunc) (url, key string) {
	t.Helper()
	pub := priv.Public().(ed25519.PublicKey)
	tpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1, 0)} // expired: clients ignore dates
	der, err := x509.CreateCertificate(rand.Reader, tpl, tpl, pub, priv)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: priv}},
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, base64.StdEncoding.EncodeToString(pub)
}
