package control

import (
	"encoding/json"
	"errors"
	"net/http"
	"pando/internal/testkit/nodekit"
	"sync"
	"testing"

	"pando/internal/api"
)

func TestControlPinsTheKey(t *testing.T) {
	url, key := nodekit.TLSServer(
		t,
		func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(`{"x":"` + r.URL.Path + `"}`)) },
	)
	_, otherKey := nodekit.TLSServer(t, nil)
	var out struct{ X string }
	c, err := New([]string{"https://127.0.0.1:1", url + "/"}, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Call(t.Context(), "/v1/x", "", nil, &out); err != nil || out.X != "/v1/x" {
		t.Errorf("call: %q, %v", out.X, err)
	}
	if c.urls[0] != url+"/" {
		t.Errorf("the URL that answered is not first now: %v", c.urls)
	}
	wrong, err := New([]string{url}, otherKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	var pin *api.WrongKeyError
	if err := wrong.Call(t.Context(), "/v1/x", "", nil, &out); !errors.As(err, &pin) {
		t.Errorf("with another key: %v, want WrongKeyError", err)
	}
}

// Two simultaneous calls leave the URL that answers at the front.
func TestControlInParallel(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	url, key := nodekit.TLSServer(t, func(http.ResponseWriter, *http.Request) {
		both.Done()
		both.Wait()
	})
	c, err := New([]string{"https://127.0.0.1:1", url}, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	for range 2 {
		go func() { errs <- c.Call(t.Context(), "/", "", nil, nil) }()
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
	url, key := nodekit.TLSServer(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(api.ErrorBody{Error: api.NewError(api.Unauthorized, "token already used", "")})
	})
	c, err := New([]string{url, url}, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	var r *Refused
	if err := c.Call(t.Context(), "/v1/node/hello", "", nil, nil); !errors.As(err, &r) ||
		err.Error() != "token already used" {
		t.Errorf("refusal reads %v", err)
	}
	if asked != 1 {
		t.Errorf("asked %d servers after a refusal, want 1: a refusal is an answer", asked)
	}
	for _, bad := range []string{"", "AAAA", "not base64"} {
		if _, err := New([]string{url}, bad, nil); err == nil {
			t.Errorf("server key %q was taken", bad)
		}
	}
}
