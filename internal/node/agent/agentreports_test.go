package agent

import (
	"encoding/json"
	"net/http"
	"os"
	"pando/internal/testkit/nodekit"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/rundir"
	"pando/internal/trace"
)

// TestAgentReports runs the agent against a server, without a block daemon or systemd.
func TestAgentReports(t *testing.T) {
	var mu sync.Mutex
	var events []trace.Event
	statuses := 0
	done := make(chan struct{})
	url, key := nodekit.TLSServer(t, func(w http.ResponseWriter, r *http.Request) {
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
	s := rundir.Session{
		Boot:      "0011223344556677",
		Node:      "pc001",
		Session:   "sess",
		Control:   []string{url},
		ServerKey: key,
	}
	for name, v := range map[string]any{rundir.SessionName: s,
		rundir.EventsName: []trace.Event{{Stage: trace.SwitchRoot, Kind: trace.End}}} {
		if err := rundir.WriteJSON(dir, name, 0o600, v); err != nil {
			t.Fatal(err)
		}
	}
	if err := rundir.Mark(dir, "lightdm"); err != nil {
		t.Fatal(err)
	}
	a, err := New(dir, "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	a.marks.leftover()
	a.marks.look()
	go a.report.Run(t.Context())
	a.status.report(t.Context())
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
	again, err := New(dir, "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	again.marks.leftover()
	again.marks.look()
	if q := again.report.Take(); len(q) != 0 {
		t.Errorf("an agent that was restarted reports %+v again", q)
	}
}

// Events that the server will never accept do not block later ones. Events that it may accept later are kept.
func TestAgentDropsWhatIsRefused(t *testing.T) {
	status := http.StatusBadRequest
	url, key := nodekit.TLSServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	dir := t.TempDir()
	if err := rundir.WriteJSON(dir, rundir.SessionName, 0o600,
		rundir.Session{Control: []string{url}, ServerKey: key}); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	a, err := New(dir, "", &log)
	if err != nil {
		t.Fatal(err)
	}
	a.report.Add(trace.Event{Stage: "odd", Kind: trace.End})
	if err := a.report.Flush(t.Context()); err != nil || len(a.report.Take()) != 0 {
		t.Errorf("a refused event is kept: %v", err)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "odd end") {
		t.Errorf("log %q, want one line that names the event", got)
	}
	for _, status = range []int{http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusInternalServerError} {
		a.report.Add(trace.Event{Stage: "odd", Kind: trace.End})
		if err := a.report.Flush(t.Context()); err == nil || len(a.report.Take()) != 1 {
			t.Errorf("status %d: the event is gone, error %v", status, err)
		}
	}
}

// A mark wakes a running agent at once.
func TestAgentListens(t *testing.T) {
	dir := t.TempDir()
	w := newWaker(t.Output())
	w.listenMarks(t.Context(), dir)
	if err := rundir.Mark(dir, "ready"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.wakes:
	case <-time.After(10 * time.Second):
		t.Error("the mark did not wake the agent")
	}
	if _, err := os.Stat(filepath.Join(dir, rundir.MarksName)); err != nil {
		t.Error(err)
	}
}
