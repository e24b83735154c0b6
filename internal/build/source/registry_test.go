package source

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// TestRegistryWithPassword: a registry with a password gets the one in Docker's configuration, by basic
// authentication or for a token.
func TestRegistryWithPassword(t *testing.T) {
	needRoot(t)
	const user, password, token = "lab", "s3cret", "a-token"
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	for _, way := range []string{"basic", "bearer"} {
		t.Run(way, func(t *testing.T) {
			var s *httptest.Server
			s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				u, p, ok := r.BasicAuth()
				right := ok && u == user && p == password
				switch {
				case r.URL.Path == "/token" && right:
					fmt.Fprintf(w, `{"token": %q}`, token)
				case way == "basic" && right, way == "bearer" && r.Header.Get("Authorization") == "Bearer "+token:
					inner.ServeHTTP(w, r)
				default:
					w.Header().
						Set("WWW-Authenticate",
							map[string]string{"basic": `Basic realm="lab"`,
								"bearer": `Bearer realm="` + s.URL + `/token",service="lab"`}[way])
					w.WriteHeader(http.StatusUnauthorized)
				}
			}))
			defer s.Close()
			host := strings.TrimPrefix(s.URL, "http://")
			config := t.TempDir()
			t.Setenv("DOCKER_CONFIG", config)
			t.Setenv("HOME", config)
			if _, _, err := fillOCI(t, host+"/lab:1", "amd64"); err == nil ||
				!strings.Contains(err.Error(), "docker login "+host) {
				t.Errorf("without a password: %v", err)
			}
			auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
			check(
				t,
				os.WriteFile(
					filepath.Join(config, "config.json"),
					[]byte(fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, auth)),
					0o600,
				),
			)
			ref, err := name.ParseReference(host + "/lab:1")
			check(t, err)
			check(t, remote.Write(ref, testImage(t, "amd64"), remote.WithAuthFromKeychain(authn.DefaultKeychain)))
			if _, _, err := fillOCI(t, host+"/lab:1", "amd64"); err != nil {
				t.Errorf("with the password: %v", err)
			}
		})
	}
}

// unsteady is a registry whose connections break: each reply with a layer ends after a number of bytes.
type unsteady struct {
	http.Handler
	mu     sync.Mutex
	after  int // bytes of a layer in one answer; 0: all
	spoil  bool
	served int // bytes of layers in all
}

func (u *unsteady) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
		u.Handler.ServeHTTP(w, r)
		return
	}
	rec := httptest.NewRecorder()
	u.Handler.ServeHTTP(rec, r)
	body := rec.Body.Bytes()
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(body) < 10_000 { // the config
		u.Handler.ServeHTTP(w, r)
		return
	}
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(rec.Code)
	if u.spoil {
		body = flipped(body)
	}
	if u.after > 0 && len(body) > u.after {
		body = body[:u.after]
	}
	n, _ := w.Write(body) // the other side may be gone
	u.served += n
	if u.after > 0 {
		panic(http.ErrAbortHandler)
	}
}

// bigLayer returns an incompressible layer.
func bigLayer(t testing.TB, seed uint64, size int) v1.Layer {
	t.Helper()
	content := make([]byte, size)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range content {
		content[i] = byte(r.Uint32())
	}
	return layerOf(t, archiveOf(t, file(fmt.Sprintf("big%d", seed), string(content))))
}

func unsteadyRegistry(t testing.TB) (*unsteady, string) {
	t.Helper()
	u := &unsteady{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	s := httptest.NewUnstartedServer(u)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	ref := strings.TrimPrefix(s.URL, "http://") + "/big:1"
	parsed, err := name.ParseReference(ref)
	check(t, err)
	layer := bigLayer(t, 1, 300_000)
	check(t, remote.Write(parsed, imageOf(t, "amd64", layer, bigLayer(t, 2, 200_000), layer)))
	return u, ref
}

// TestFetchGoesOn: after a broken connection the download continues where it was; no byte is sent twice.
func TestFetchGoesOn(t *testing.T) {
	u, ref := unsteadyRegistry(t)
	u.after = 70_000
	tree, _, err := fillOCI(t, ref, "amd64")
	check(t, err)
	if got := strings.Join(names(t, tree), " "); got != "big1 big2" {
		t.Errorf("the tree has %s", got)
	}
	if u.served < 500_000 || u.served > 510_000 {
		t.Errorf("%d bytes of layers were sent for 500 kB", u.served)
	}
}

// TestFetchContinuesLater: what was fetched before an interruption is not fetched again.
func TestFetchContinuesLater(t *testing.T) {
	needRoot(t)
	u, ref := unsteadyRegistry(t)
	o, err := ParseOCI(ref, "amd64", Limits{})
	check(t, err)
	p := Place{Root: t.TempDir(), Keep: t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	u.after = 70_000
	_, err = o.Fill(ctx, p, func(s Progress) {
		if s.Done > 200_000 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	if left := names(t, p.Root); len(left) > 0 {
		t.Errorf("the tree has %v", left)
	}
	u.after = 0
	if _, err := o.Fill(t.Context(), p, func(Progress) {}); err != nil {
		t.Fatal(err)
	}
	if u.served > 600_000 {
		t.Errorf("%d bytes of layers were sent for 500 kB", u.served)
	}
}

// TestFetchedWrongBytes: wrong bytes are not kept, and the same call succeeds when the registry sends the right ones.
func TestFetchedWrongBytes(t *testing.T) {
	needRoot(t)
	u, ref := unsteadyRegistry(t)
	u.spoil = true
	o, err := ParseOCI(ref, "amd64", Limits{})
	check(t, err)
	p := Place{Root: t.TempDir(), Keep: t.TempDir()}
	if _, err := o.Fill(t.Context(), p, func(Progress) {}); err == nil ||
		!strings.Contains(err.Error(), "changed or damaged") {
		t.Errorf("error %v", err)
	}
	u.spoil = false
	if _, err := o.Fill(t.Context(), p, func(Progress) {}); err != nil {
		t.Error(err)
	}
}
