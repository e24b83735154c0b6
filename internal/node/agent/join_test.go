package agent

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"pando/internal/testkit/nodekit"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/link"
	"pando/internal/rundir"
)

// A node that booted without a server gets a boot ID and a session once there is a server, and uses them.
func TestAgentJoins(t *testing.T) {
	resp, cfg := nodekit.SignedAssignment(t, nil)
	var asked []string
	url, _ := nodekit.TLSServerOf(
		t,
		ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)),
		func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Path)
			switch r.URL.Path {
			case "/v1/node/begin":
				var req api.BeginRequest
				if err := json.NewDecoder(r.Body).Decode(&req); err != nil || !req.Runs ||
					req.Medium != "sha256:running" ||
					req.Uptime <= 0 {
					t.Errorf("begin with %+v, %v", req, err)
				}
				_ = json.NewEncoder(w).Encode(api.BeginResponse{Boot: cfg.Boot, Token: "t"})
			case "/v1/node/hello":
				_ = json.NewEncoder(w).Encode(resp)
			default:
				w.WriteHeader(http.StatusNoContent)
			}
		},
	)
	dir := t.TempDir()
	l := link.Lease{MAC: fleet.MAC{2, 0, 0, 0, 0, 1}, Address: netip.MustParsePrefix("10.0.0.9/24")}
	s := rundir.Session{Node: "pc001", Version: "sha256:running", Control: []string{url}, ServerKey: cfg.ServerKey}
	if err := errors.Join(rundir.WriteJSON(dir, rundir.LeaseName, 0o600, l),
		rundir.WriteJSON(dir, rundir.SessionName, 0o600, s)); err != nil {
		t.Fatal(err)
	}
	a, err := New(dir, "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if !(&joiner{a.who, a.sender}).wait(t.Context()) {
		t.Fatal("it did not join")
	}
	if got := a.Self(); got.Boot != cfg.Boot || got.Session != resp.Session || got.Node != "pc001" {
		t.Errorf("it speaks as %+v", got)
	}
	again, err := New(dir, "", t.Output()) // the agent was killed and restarted
	if err != nil || !(&joiner{again.who, again.sender}).wait(t.Context()) || again.Self().Session != resp.Session ||
		len(asked) != 2 {
		t.Errorf("after a restart it asked %v and speaks as %+v, %v", asked, again.Self(), err)
	}
}

func TestAgentWaitsForAServer(t *testing.T) {
	_, cfg := nodekit.SignedAssignment(t, nil)
	dir := t.TempDir()
	s := rundir.Session{Control: []string{"https://127.0.0.1:1"}, ServerKey: cfg.ServerKey}
	if err := errors.Join(rundir.WriteJSON(dir, rundir.LeaseName, 0o600, link.Lease{}),
		rundir.WriteJSON(dir, rundir.SessionName, 0o600, s)); err != nil {
		t.Fatal(err)
	}
	a, err := New(dir, "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if (&joiner{a.who, a.sender}).wait(ctx) {
		t.Error("it joined nobody")
	}
}
