package api

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/trace"
)

func TestServerURL(t *testing.T) {
	for in, want := range map[string]string{
		"boot.example": "https://boot.example:8443", "10.0.0.1": "https://10.0.0.1:8443",
		"10.0.0.1:9":        "https://10.0.0.1:9",
		"https://[fe80::1]": "https://[fe80::1]:8443", "https://a:1/v1": "https://a:1", "http://a": "", "": "",
		"a b": "",
	} {
		got, err := serverURL(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

// tlsServer has a self-signed certificate for no name and with an expired date, as the control port (8443) has.
func tlsServer(t *testing.T, h http.Handler) (url string, key ed25519.PublicKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}},
		MinVersion:   tls.VersionTLS13,
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, public
}

func TestClientPinsTheKey(t *testing.T) {
	asked := 0
	url, key := tlsServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("Authorization is %q", r.Header.Get("Authorization"))
		}
		_, _ = io.WriteString(w, `{"site":"s","server":"k","later":1}`)
	}))
	c, err := OverTLS(url, FormatToken("secret", key))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if k, err := c.Keys(t.Context()); err != nil || k.Site != "s" {
		t.Errorf("%+v, %v", k, err)
	}
	other, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := OverTLS(url, FormatToken("secret", other))
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	_, err = wrong.Keys(t.Context())
	var lost *UnreachableError
	var pin *WrongKeyError
	if !errors.As(err, &lost) || !errors.As(err, &pin) || !strings.Contains(lost.Hint, "another server") {
		t.Errorf("a server with another key: %v", err)
	}
	if asked != 1 {
		t.Errorf("the secret was told to %d servers", asked)
	}
}

func TestClientErrors(t *testing.T) {
	answer, status := "", 0
	url, key := tlsServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	c, err := OverTLS(url, FormatToken("secret", key))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, k := range []struct {
		status int
		answer string
		code   Code
		says   string
	}{
		{404, `{"error":{"code":"not_found","message":"node \"x\": not found","hint":"h"}}`, NotFound,
			`node "x": not found`},
		{404, `<html>`, NotFound, "404"},
		{502, ``, Internal, "502"},
		{401, `{"error":null}`, Unauthorized, "401"},
	} {
		status, answer = k.status, k.answer
		_, err := c.Node(t.Context(), "x")
		if !IsCode(err, k.code) || !strings.Contains(err.Error(), k.says) {
			t.Errorf("%d %s: %v", k.status, k.answer, err)
		}
	}
	status, answer = 200, `not JSON`
	if _, err := c.Node(t.Context(), "x"); err == nil {
		t.Error("an answer that is not JSON was taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Node(ctx, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestNoServer(t *testing.T) {
	c := OverSocket(filepath.Join(t.TempDir(), "pando.sock"))
	_, err := c.Status(t.Context())
	var lost *UnreachableError
	if !errors.As(err, &lost) || !strings.Contains(lost.Hint, "pando up") {
		t.Errorf("no server: %v", err)
	}
}

func TestReadStream(t *testing.T) {
	var got []int64
	take := func(e trace.Event) bool { got = append(got, e.Seq); return e.Seq < 3 }
	err := readStream(
		strings.NewReader("id: 1\ndata: {\"seq\":1}\n\n: ping\n\nid: 3\ndata: {\"seq\":3}\n\ndata: {\"seq\":4}\n\n"),
		take,
	)
	if err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	if err := readStream(strings.NewReader("data: {\"seq\":1}\n"), take); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a stream that ends: %v", err)
	}
	if err := readStream(strings.NewReader("data: {\n"), take); err == nil {
		t.Error("half an event was taken")
	}
	if err := readStream(strings.NewReader("data: "+strings.Repeat("x", 2<<20)), take); err == nil {
		t.Error("a line without end was taken")
	}
}

func FuzzReadStream(f *testing.F) {
	f.Add("id: 1\ndata: {\"seq\":1,\"stage\":\"dhcp\"}\n\n")
	f.Add("data: {}\ndata:")
	f.Fuzz(func(t *testing.T, s string) {
		if err := readStream(strings.NewReader(s), func(trace.Event) bool { return true }); err == nil {
			t.Fatal("a stream ended and nobody was told")
		}
	})
}
