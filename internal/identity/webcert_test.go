package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var webTest = WebNames{
	Hosts: []string{"boot.example", "localhost"},
	Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("::1")},
}

// shake makes a connection like a browser that has imported an authority.
func shake(t *testing.T, w *WebCertificate, authority []byte, name string, now time.Time) error {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		t.Fatal("the authority is no certificate")
	}
	here, there := net.Pipe()
	go func() {
		s := tls.Server(there, w.TLS())
		_ = s.Handshake() // the client reports the error
		_, _ = io.Copy(io.Discard, s)
	}()
	defer here.Close()
	return tls.Client(here, &tls.Config{RootCAs: roots, ServerName: name, Time: func() time.Time { return now }}).
		Handshake()
}

func TestOwnWebCertificate(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	w, err := OwnWebCertificate(dir, webTest, clock)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, WebAuthorityFile))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, webAuthorityKey)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key of the authority: %v %v", info, err)
	}
	for name, ok := range map[string]bool{"boot.example": true, "localhost": true, "192.0.2.7": true, "::1": true,
		"other.example": false, "192.0.2.8": false} {
		if err := shake(t, w, ca, name, now); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	// After a restart the authority is the same, and a certificate is replaced before it expires.
	again, err := OwnWebCertificate(dir, webTest, clock)
	if err != nil || shake(t, again, ca, "boot.example", now) != nil {
		t.Error("after a restart browsers do not know it:", err)
	}
	now = now.Add(webLife - webRenew + time.Hour)
	if err := shake(t, w, ca, "boot.example", now.Add(webRenew)); err != nil {
		t.Error("not renewed:", err)
	}
	now = now.Add(webAuthorityLife)
	var refused *KeyError
	if _, err := OwnWebCertificate(dir, webTest, clock); !errors.As(err, &refused) || refused.Hint() == "" {
		t.Error("an authority that is over was used:", err)
	}
}

// A renewal writes two files one after the other: in between the old certificate is used.
func TestGivenWebCertificateIsReadAgain(t *testing.T) {
	now := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	one, two := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, two} {
		if _, err := OwnWebCertificate(dir, webTest, clock); err != nil {
			t.Fatal(err)
		}
	}
	cert, key := filepath.Join(one, WebAuthorityFile), filepath.Join(one, webAuthorityKey)
	w, err := GivenWebCertificate(cert, key, clock)
	if err != nil {
		t.Fatal(err)
	}
	serial := func() string {
		c, err := w.get()
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.SerialNumber.String()
	}
	copyFile := func(name string) {
		b, err := os.ReadFile(filepath.Join(two, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(one, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	first := serial()
	copyFile(WebAuthorityFile)
	now = now.Add(2 * webLook)
	if serial() != first {
		t.Error("a certificate was taken without its key")
	}
	copyFile(webAuthorityKey)
	now = now.Add(2 * webLook)
	if serial() == first {
		t.Error("the new certificate was not taken")
	}
	if _, err := GivenWebCertificate(cert+".not", key, clock); err == nil {
		t.Error("a file that is not there was taken")
	}
	for mode, taken := range map[os.FileMode]bool{0o640: true, 0o644: false, 0o660: false} {
		if err := os.Chmod(key, mode); err != nil {
			t.Fatal(err)
		}
		var refused *KeyError
		_, err := GivenWebCertificate(cert, key, clock)
		if taken != (err == nil) || !taken && (!errors.As(err, &refused) || refused.Hint() == "") {
			t.Errorf("a given key of mode %04o: %v", mode, err)
		}
		refused = nil
		if _, err := OwnWebCertificate(one, webTest, clock); !errors.As(err, &refused) || refused.Path != key {
			t.Errorf("the own authority's key of mode %04o: %v", mode, err)
		}
	}
}
