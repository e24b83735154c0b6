package agent

import (
	"encoding/json"
	"io"
	"net/http"
	"pando/internal/testkit/nodekit"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/blockapi"
	"pando/internal/rundir"
	"pando/internal/trace"
)

// told records what a server received from an agent.
type told struct {
	mu     sync.Mutex
	events []trace.Event
}

func (h *told) serve(w http.ResponseWriter, r *http.Request) {
	var req api.ReportRequest
	_ = json.NewDecoder(r.Body).Decode(&req) // a lost report fails the test below
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, req.Events...)
	w.WriteHeader(http.StatusNoContent)
}

// take returns the events since the last call.
func (h *told) take() []trace.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.events
	h.events = nil
	return out
}

// incidentList has the incidents of a block daemon.
type incidentList struct{ incidents []blockapi.Incident }

func (l *incidentList) report(i blockapi.Incident) {
	i.Sequence, i.At = int64(len(l.incidents)+1), rundir.Monotonic()
	l.incidents = append(l.incidents, i)
}

// tellingAgent starts an agent whose block daemon reports only these incidents.
func tellingAgent(t *testing.T, dir string, l *incidentList, h *told) Config {
	t.Helper()
	url, key := nodekit.TLSServer(t, h.serve)
	fakeDaemon(t, filepath.Join(dir, blockapi.Socket), map[string]func() any{"GET /status": func() any {
		return blockapi.Status{Incidents: l.incidents}
	}})
	return Config{
		Boot:      "0011223344556677",
		Node:      "pc001",
		Session:   "s",
		Control:   []string{url},
		ServerKey: key,
		Init:      time.Now().Add(-time.Minute),
	}
}

// run runs an agent until it has reported everything.
func (c Config) run(t *testing.T, dir string, booted bool) {
	t.Helper()
	x, err := StartAlone(dir, c, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if booted {
		x.Booted()
	}
	if err := x.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// hinted maps the kinds of incidents that need action to a text in their hints.
var hinted = map[blockapi.IncidentKind]string{
	blockapi.WrongBytes: "pando store check", blockapi.Missing: "build or copy", blockapi.ServerDown: "pando serve",
	blockapi.ServerUp: "", blockapi.Reattached: "short of memory", blockapi.LinkFixed: "network",
	blockapi.LostPiece: "pando store check", blockapi.PeerBanned: "look after that " +
		"machine", blockapi.PeerFailed: "link", blockapi.PeerLeft: "link", blockapi.PeersGone: "switched " +
		"off", blockapi.TrackerLost: "pando serve", blockapi.TrackerUp: "",
	blockapi.BrokenImage: "build the image again", blockapi.CacheFailed: "pando node " +
		"cache", blockapi.CacheDamaged: "pando node cache",
}

// Each kind of incident in the ledger becomes one event at the server, even if the agent ends and another reads the
// same ledger.
func TestEachIncidentIsToldOnce(t *testing.T) {
	dir, l, h := t.TempDir(), &incidentList{}, &told{}
	c := tellingAgent(t, dir, l, h)
	kinds := blockapi.IncidentKinds()
	for _, k := range kinds {
		l.report(
			blockapi.Incident{
				Kind:    k,
				Source:  "http://10.0.0.1:8480",
				Object:  "0a",
				Message: "what is told of " + string(k),
			},
		)
	}
	c.run(t, dir, false)
	events := h.take()
	if len(events) != len(kinds) {
		t.Fatalf("%d events of %d incidents: %+v", len(events), len(kinds), events)
	}
	for i, k := range kinds {
		e, want := events[i], string(k)+": what is told of "+string(k)+" (http://10.0.0.1:8480)"
		if e.Stage != trace.SwitchRoot || e.Kind != trace.Info || e.Message != want ||
			e.Attrs[trace.AttrIncident] != string(k) ||
			e.Attrs[attrObject] != "0a" {
			t.Errorf("%s is told as %+v", k, e)
		}
		if hint, known := hinted[k]; !known || (hint == "") != (e.Hint == "") || !strings.Contains(e.Hint, hint) {
			t.Errorf("%s: hint %q, want one of %q (known: %v)", k, e.Hint, hint, known)
		}
	}
	c.run(t, dir, true) // another agent
	if again := h.take(); len(again) != 0 {
		t.Errorf("another agent told again %+v", again)
	}
	l.report(blockapi.Incident{Kind: blockapi.ServerDown, Message: "later"})
	c.run(t, dir, false)
	if more := h.take(); len(more) != 1 || more[0].Stage != trace.Booted || more[0].Attrs[attrObject] != "" {
		t.Errorf("what came after booted is told as %+v", more)
	}
}

// An incident is on the timeline at the time when it happened, not when the agent reported it. An incident of the
// boot belongs to the boot.
func TestIncidentsAreToldAtTheirTime(t *testing.T) {
	a := testAgent(t, rundir.Session{Origin: 10 * time.Second})
	a.record.booted(50 * time.Second)
	for _, x := range []struct {
		at, offset time.Duration
		stage      trace.Stage
	}{{40 * time.Second, 30 * time.Second, trace.SwitchRoot}, {50 * time.Second, 40 * time.Second, trace.Booted},
		{90 * time.Second, 80 * time.Second, trace.Booted},
		{5 * time.Second, 0, trace.SwitchRoot}} {
		if e := a.status.incidents.event(blockapi.Incident{Kind: blockapi.ServerDown,
			At: x.at}); e.Offset != x.offset ||
			e.Stage != x.stage {
			t.Errorf("at %v: %+v, want %v at stage %s", x.at, e, x.offset, x.stage)
		}
	}
}
