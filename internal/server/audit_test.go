package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
)

// TestEveryChangeIsAudited: each route that changes something writes an entry, here of its refusal; so does a new
// route.
func TestEveryChangeIsAudited(t *testing.T) {
	s := startSite(t)
	here := api.OverHandler(s.socketRoutes())
	made, err := here.CreateToken(t.Context(), api.TokenCreate{Name: "looks-only", Role: fleet.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := api.ParseToken(made.Secret)
	if err != nil {
		t.Fatal(err)
	}
	routes, changes := s.controlRoutes(), 0
	for _, r := range (&Server{}).operatorList() {
		if r.Method == http.MethodGet || r.Path == "/v1/store/missing" {
			continue
		}
		changes++
		path := strings.NewReplacer("{", "", "}", "").Replace(r.Path)
		req := httptest.NewRequestWithContext(t.Context(), r.Method, path, strings.NewReader("{}"))
		req.Header.Set("Authorization", "Bearer "+secret)
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, req)
		last, err := here.Audit(t.Context(), 0, 1)
		if err != nil || w.Code != http.StatusForbidden || len(last) != 1 || last[0].Method != r.Method ||
			last[0].Path != path ||
			last[0].Who != "token looks-only" ||
			last[0].Status != http.StatusForbidden {
			t.Errorf("%s %s: %d, and the last line of the audit log is %+v %v", r.Method, path, w.Code, last, err)
		}
	}
	if changes < 40 {
		t.Errorf("%d routes that change something", changes)
	}
}
