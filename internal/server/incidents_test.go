package server

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/blockapi"
	"pando/internal/fleet"
	nodeagent "pando/internal/node/agent"
	"pando/internal/trace"
)

// The agent reports each kind of incident of a block daemon to a real server. The boot's timeline has it once, with its
// hint, even if the agent and the server restart and the report has to wait.
func TestEachIncidentIsOnTheTimeline(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	cfg := n.load()
	session := n.register(cfg).Session
	dir, err := os.MkdirTemp("", "agent") // a short path, because it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	kinds := blockapi.IncidentKinds()
	daemonOf(t, dir, kinds)
	c := nodeagent.Config{
		Boot:      cfg.Boot,
		Session:   session,
		ServerKey: base64.StdEncoding.EncodeToString(s.keys.ServerPublic()),
		Init:      time.Now().Add(-time.Hour),
	}
	start := func() *nodeagent.Alone {
		c.Control = []string{fmt.Sprintf("https://127.0.0.1:%d", s.ports.Control)}
		a, err := nodeagent.StartAlone(dir, c, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	s.checkIncidents(t, cfg.Boot, nil)
	if err := start().Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.checkIncidents(t, cfg.Boot, kinds)
	s.restart()
	if err := start().Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.checkIncidents(t, cfg.Boot, kinds)
}

// daemonOf plays a block daemon that has had one incident of each kind.
func daemonOf(t *testing.T, dir string, kinds []blockapi.IncidentKind) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(dir, blockapi.Socket))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			var st blockapi.Status
			for i, k := range kinds {
				st.Incidents = append(
					st.Incidents,
					blockapi.Incident{Sequence: int64(i + 1), Kind: k, Source: "10.0.0.7:8481", Message: "it did"},
				)
			}
			_ = json.NewEncoder(w).Encode(st) // it fails only if the client is gone
		}),
	}
	go func() { _ = srv.Serve(l) }() // Close ends it
	t.Cleanup(func() { srv.Close() })
}

// checkIncidents compares the incidents of a boot in the API with want.
func (s *site) checkIncidents(t *testing.T, id fleet.BootID, want []blockapi.IncidentKind) {
	t.Helper()
	t.Helper()
	b, err := operatorOf(t, s).Boot(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var got []blockapi.IncidentKind
	for _, e := range b.Events {
		kind := e.Attrs[trace.AttrIncident]
		if kind == "" {
			continue
		}
		got = append(got, blockapi.IncidentKind(kind))
		good := strings.HasSuffix(kind, "-up")
		if e.Message != kind+": it did (10.0.0.7:8481)" || e.Kind != trace.Info || (e.Hint == "") != good {
			t.Errorf("%s is on the timeline as %+v", kind, e)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the timeline has %v, want %v", got, want)
	}
	if b.Failure != "" || b.State == trace.Failed ||
		slices.ContainsFunc(b.Steps, func(x api.Step) bool { return x.Failure != "" }) {
		t.Errorf("what was dealt with is taken for a failure: %+v", b)
	}
}
