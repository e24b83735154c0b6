package boot

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/api"
	"pando/internal/trace"
)

// tlsServer speaks TLS 1.3 with a key of its own, which it returns as nodes have it.
func tlsServer(t *testing.T, h http.HandlerFunc) (url, key string) {
	t.Helper()
	_, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return tlsServerOf(t, priv, h)
}

// tlsServerOf does so with a given key.
func tlsServerOf(t *testing.T, priv ed25519.PrivateKey, h http.HandlerFunc) (url, key string) {
	t.Helper()
	pub := priv.Public().(ed25519.PublicKey)
	tpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1, 0)} // long over: dates mean nothing
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

func TestControlPinsTheKey(t *testing.T) {
	url, key := tlsServer(
		t,
		func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(`{"x":"` + r.URL.Path + `"}`)) },
	)
	_, otherKey := tlsServer(t, nil)
	var out struct{ X string }
	c, err := newControl([]string{"https://127.0.0.1:1", url + "/"}, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.call(t.Context(), "/v1/x", "", nil, &out); err != nil || out.X != "/v1/x" {
		t.Errorf("call: %q, %v", out.X, err)
	}
	if c.urls[0] != url+"/" {
		t.Errorf("the URL that answered is not first now: %v", c.urls)
	}
	wrong, err := newControl([]string{url}, otherKey)
	if err != nil {
		t.Fatal(err)
	}
	var pin *api.WrongKeyError
	if err := wrong.call(t.Context(), "/v1/x", "", nil, &out); !errors.As(err, &pin) {
		t.Errorf("with another key: %v, want WrongKeyError", err)
	}
}

// Two calls that are under way at once leave the URL that answers at the front.
func TestControlInParallel(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	url, key := tlsServer(t, func(http.ResponseWriter, *http.Request) {
		both.Done()
		both.Wait()
	})
	c, err := newControl([]string{"https://127.0.0.1:1", url}, key)
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	for range 2 {
		go func() { errs <- c.call(t.Context(), "/", "", nil, nil) }()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Error(err)
	}
	if c.urls[0] != url {
		t.Errorf("tried first from now on: %v", c.urls)
	}
}

func TestControlRefusal(t *testing.T) {
	asked := 0
	url, key := tlsServer(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(api.ErrorBody{Error: api.NewError(api.Unauthorized, "token already used", "")})
	})
	c, err := newControl([]string{url, url}, key)
	if err != nil {
		t.Fatal(err)
	}
	var r *refused
	if err := c.call(t.Context(), "/v1/node/hello", "", nil, nil); !errors.As(err, &r) ||
		err.Error() != "token already used" {
		t.Errorf("refusal reads %v", err)
	}
	if asked != 1 {
		t.Errorf("asked %d servers after a refusal, want 1: a refusal is an answer", asked)
	}
	for _, bad := range []string{"", "AAAA", "not base64"} {
		if _, err := newControl([]string{url}, bad); err == nil {
			t.Errorf("server key %q was taken", bad)
		}
	}
}

// TestAgentReports runs the agent against a server, without a block daemon or systemd.
func TestAgentReports(t *testing.T) {
	var mu sync.Mutex
	var events []trace.Event
	statuses := 0
	done := make(chan struct{})
	url, key := tlsServer(t, func(w http.ResponseWriter, r *http.Request) {
		var q api.ReportRequest
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.Header.Get("Authorization") != "Bearer sess" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		events = append(events, q.Events...)
		if q.Status != nil {
			statuses++
		}
		if len(events) == 2 && statuses == 1 {
			close(done)
		}
	})
	dir := t.TempDir()
	s := session{Boot: "0011223344556677", Node: "pc001", Session: "sess", Control: []string{url}, ServerKey: key}
	for name, v := range map[string]any{sessionName: s, eventsName: []trace.Event{{Stage: trace.SwitchRoot, Kind: trace.End}}} {
		if err := writeJSON(dir, name, 0o600, v); err != nil {
			t.Fatal(err)
		}
	}
	if err := Mark(dir, "lightdm"); err != nil {
		t.Fatal(err)
	}
	a, err := newAgent(dir, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	a.leftover()
	a.marks()
	go a.report.run(t.Context())
	a.status(t.Context())
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("no report came")
	}
	mu.Lock()
	defer mu.Unlock()
	if events[0].Stage != trace.SwitchRoot || events[1].Stage != "lightdm" || events[1].Node != "pc001" ||
		events[1].Offset <= 0 {
		t.Errorf("events %+v", events)
	}
	again, err := newAgent(dir, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	again.leftover()
	again.marks()
	if q := again.report.take(); len(q) != 0 {
		t.Errorf("an agent that was restarted reports %+v again", q)
	}
}

// What the server will never take does not hold up what comes later; what it may take later is kept.
func TestAgentDropsWhatIsRefused(t *testing.T) {
	status := http.StatusBadRequest
	url, key := tlsServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	dir := t.TempDir()
	if err := writeJSON(dir, sessionName, 0o600, session{Control: []string{url}, ServerKey: key}); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	a, err := newAgent(dir, &log)
	if err != nil {
		t.Fatal(err)
	}
	a.report.add(trace.Event{Stage: "odd", Kind: trace.End})
	if err := a.report.flush(t.Context()); err != nil || len(a.report.take()) != 0 {
		t.Errorf("a refused event is kept: %v", err)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "odd end") {
		t.Errorf("log %q, want one line that names the event", got)
	}
	for _, status = range []int{http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError} {
		a.report.add(trace.Event{Stage: "odd", Kind: trace.End})
		if err := a.report.flush(t.Context()); err == nil || len(a.report.take()) != 1 {
			t.Errorf("status %d: the event is gone, error %v", status, err)
		}
	}
}

// A mark wakes a running agent at once.
func TestAgentListens(t *testing.T) {
	dir := t.TempDir()
	a := &agent{dir: dir, log: t.Output(), kicks: make(chan struct{}, 1)}
	a.listen(t.Context())
	if err := Mark(dir, "ready"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-a.kicks:
	case <-time.After(10 * time.Second):
		t.Error("the mark did not wake the agent")
	}
	if _, err := os.Stat(filepath.Join(dir, marksName)); err != nil {
		t.Error(err)
	}
}

func TestSleepEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := sleep(t.Context(), time.Hour); err != nil || time.Since(begun) != time.Hour {
			t.Errorf("slept %v, %v", time.Since(begun), err)
		}
	})
}
