package agent

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// fakeDaemon answers requests on the block daemon's socket. A nil answer has no content.
func fakeDaemon(t *testing.T, socket string, answers map[string]func() any) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for pattern, answer := range answers {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			if v := answer(); v != nil {
				_ = json.NewEncoder(w).Encode(v)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
	}
	s := httptest.NewUnstartedServer(mux)
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
}
