package identity

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestUpload: a program that verifies certificates accepts the server's, and the server learns the boot from the
// client's certificate. A forged certificate gives no boot.
func TestUpload(t *testing.T) {
	k := fixed()
	config, err := ServerTLS(k.Server)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "["+k.UploadBy(r.TLS)+"]") }),
	)
	srv.Listener = tls.NewListener(srv.Listener, config)
	defer srv.Close()
	srv.Config.ErrorLog = nil
	srv.Start()
	url := strings.Replace(srv.URL, "http:", "https:", 1)
	mine, err := k.Upload("0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(k Keys, boot string, certified bool) (string, error) {
		u, err := k.Upload(boot)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(u.Authority) {
			t.Fatal("no certificate")
		}
		c := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
		if certified {
			pair, err := tls.X509KeyPair(u.Certificate, u.Key)
			if err != nil {
				t.Fatal(err)
			}
			c.Certificates = []tls.Certificate{pair}
		}
		tr := &http.Transport{TLSClientConfig: c}
		defer tr.CloseIdleConnections()
		res, err := (&http.Client{Transport: tr}).Get(url) //nolint:noctx // the server is in this process
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return string(b), err
	}
	if got, err := ask(k, "0123456789abcdef", true); err != nil || got != "[0123456789abcdef]" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := ask(k, "0123456789abcdef", false); err != nil || got != "[]" {
		t.Errorf("without a certificate: %q, %v", got, err)
	}
	other := fixed()
	other.Secret[0] ^= 1 // same server key, other secret: a forged certificate
	if got, err := ask(other, "0123456789abcdef", true); err != nil || got != "[]" {
		t.Errorf("with a certificate of its own making: %q, %v", got, err)
	}
	if again, err := k.Upload("0123456789abcdef"); err != nil || string(again.Key) != string(mine.Key) ||
		string(again.Authority) != string(mine.Authority) {
		t.Errorf("a second time it is something else: %v", err)
	}
	if b, _ := pem.Decode(mine.Key); b == nil || b.Type != "PRIVATE KEY" {
		t.Errorf("key:\n%s", mine.Key)
	}
}
