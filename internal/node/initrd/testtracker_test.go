package initrd

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"pando/internal/testkit/nodekit"
	"strings"
	"sync/atomic"
	"testing"
)

// trackerNaming returns a server whose tracker names peers, and a count of the requests for its manifest.
func trackerNaming(t *testing.T, p nodekit.Published, peers []string) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	names := []string{}
	for _, p := range peers {
		names = append(names, strings.TrimPrefix(p, "http://"))
	}
	own := p.Serve(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/swarm/start" {
			if err := json.NewEncoder(w).Encode(map[string]any{"peers": names}); err != nil {
				t.Error(err)
			}
			return
		}
		if strings.HasPrefix(r.URL.Path, "/m/") {
			asked.Add(1)
		}
		http.Redirect(w, r, own+r.URL.Path, http.StatusFound)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}
