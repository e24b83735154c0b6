package boot

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/trace"
)

// TestAgentReports runs the agent against a server, without a block daemon or systemd.
func TestAgentReports(t *testing.T) {
	var mu sync.Mutex
	var events []trace.Event
	statuses := 0
	done := make(chan struct{})
	url, key := tlsServer(t, func(w http.ResponseWriter, r *http.Request) {
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
	s := session{Boot: "0011223344556677", Node: "pc001", Session: "sess", Control: []string{url}, ServerKey: key}
	for name, v := range map[string]any{sessionName: s, eventsName: []trace.Event{{Stage: trace.SwitchRoot, Kind: trace.End}}} {
		if err := writeJSON(dir, name, 0o600, v); err != nil {
			t.Fatal(err)
		}
	}
	if err := Mark(dir, "lightdm"); err != nil {
		t.Fatal(err)
	}
	a, err := NewAgent(dir, "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	a.marks.leftover()
	a.marks.look()
	go a.report.run(t.Context())
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
	again, err := NewAgent(dir, "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	again.marks.leftover()
	again.marks.look()
	if q := again.report.take(); len(q) != 0 {
		t.Errorf("an agent that was restarted reports %+v again", q)
	}
}

// What the server will never take does not hold up what comes later; what it may take later is kept.
func TestAgentDropsWhatIsRefused(t *testing.T) {
	status := http.StatusBadRequest
	url, key := tlsServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	dir := t.TempDir()
	if err := writeJSON(dir, sessionName, 0o600, session{Control: []string{url}, ServerKey: key}); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	a, err := NewAgent(dir, "", &log)
	if err != nil {
		t.Fatal(err)
	}
	a.report.add(trace.Event{Stage: "odd", Kind: trace.End})
	if err := a.report.flush(t.Context()); err != nil || len(a.report.take()) != 0 {
		t.Errorf("a refused event is kept: %v", err)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "odd end") {
		t.Errorf("log %q, want one line that names the event", got)
	}
	for _, status = range []int{http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError} {
		a.report.add(trace.Event{Stage: "odd", Kind: trace.End})
		if err := a.report.flush(t.Context()); err == nil || len(a.report.take()) != 1 {
			t.Errorf("status %d: the event is gone, error %v", status, err)
		}
	}
}

// A mark wakes a running agent at once.
func TestAgentListens(t *testing.T) {
	dir := t.TempDir()
	w := newWaker(t.Output())
	w.listen(t.Context(), dir)
	if err := Mark(dir, "ready"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.kicks:
	case <-time.After(10 * time.Second):
		t.Error("the mark did not wake the agent")
	}
	if _, err := os.Stat(filepath.Join(dir, marksName)); err != nil {
		t.Error(err)
	}
}
