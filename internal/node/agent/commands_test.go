package agent

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"pando/internal/api"
	"pando/internal/control"
)

// A command is carried out once, even if the server repeats it.
func TestCommandOnce(t *testing.T) {
	did := make(chan string, 8)
	server := control.Over([]string{"https://server"}, transport(func(r *http.Request) (*http.Response, error) {
		var rep api.NodeCommandReport
		_ = json.NewDecoder(r.Body).Decode(&rep)
		did <- rep.ID
		return &http.Response{StatusCode: http.StatusNoContent, Body: io.NopCloser(&bytes.Reader{}), Request: r}, nil
	}))
	e := newAgent(&identity{dir: t.TempDir()}, server, t.Output()).status.commands
	e.begin(nil)
	if e.recent() {
		t.Error("no command is a recent one")
	}
	for _, id := range []string{"a", "a", "b", "b"} {
		e.begin(&api.NodeCommand{ID: id, Kind: api.ListDisks})
	}
	got := map[string]bool{<-did: true, <-did: true}
	if len(did) > 0 || !got["a"] || !got["b"] || !e.recent() {
		t.Errorf("did %v and %d more", got, len(did))
	}
}
