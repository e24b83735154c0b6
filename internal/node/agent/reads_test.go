package agent

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"pando/internal/testkit/nodekit"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/blockapi"
	"pando/internal/control"
	"pando/internal/rundir"
	"pando/internal/trace"
)

func TestReadsDue(t *testing.T) {
	for name, c := range map[string]struct {
		booted, traced bool
		at, again, now time.Duration
		want           bool
	}{
		"not booted":        {false, false, 0, 0, time.Hour, false},
		"just booted":       {true, false, time.Minute, 0, time.Minute + readsGrace - 1, false},
		"booted for long":   {true, false, time.Minute, 0, time.Minute + readsGrace, true},
		"sent":              {true, true, time.Minute, 0, time.Hour, false},
		"failed just now":   {true, false, time.Minute, time.Hour, time.Hour - 1, false},
		"failed long since": {true, false, time.Minute, time.Hour, time.Hour, true},
	} {
		a := testAgent(t, rundir.Session{})
		a.reads.at = c.again
		a.record.BootedAt, a.record.Traced = c.at, c.traced
		a.record.Until = true // a mark that is not the configured one changes nothing
		a.record.up.Store(c.booted)
		if got := a.reads.due(c.now); got != c.want {
			t.Errorf("%s: due %v, want %v", name, got, c.want)
		}
	}
}

// If a mark ends the recording, the agent waits for the mark, up to a limit, and never less than without one.
func TestReadsUntilAMark(t *testing.T) {
	for name, c := range map[string]struct {
		marked bool
		now    time.Duration
		want   bool
	}{
		"no mark yet":        {false, readsLongest - 1, false},
		"no mark at all":     {false, readsLongest, true},
		"marked early":       {true, readsGrace - 1, false},
		"marked":             {true, readsGrace, true},
		"marked and waiting": {true, readsLongest, true},
	} {
		a := testAgent(t, rundir.Session{Until: "firefox-ready"})
		a.record.up.Store(true)
		a.marks.report(rundir.MarkLine{Name: "greeter-up"})
		if c.marked {
			a.marks.report(rundir.MarkLine{Name: "firefox-ready"})
		}
		if got := a.reads.due(c.now); got != c.want {
			t.Errorf("%s: due %v, want %v", name, got, c.want)
		}
	}
}

// The trace is sent once. It is repeated while the server is down, and not after the server refused it.
func TestAgentSendsReads(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		traced bool
	}{"taken": {http.StatusNoContent, true}, "refused": {http.StatusNotFound, true},
		"away": {http.StatusServiceUnavailable, false}} {
		var got api.TraceRequest
		var posts atomic.Int32
		url, key := nodekit.TLSServer(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/node/trace" || r.Header.Get("Authorization") != "Bearer s" {
				t.Errorf("%s: %s with %q", name, r.URL.Path, r.Header.Get("Authorization"))
			}
			_ = json.NewDecoder(r.Body).Decode(&got)
			posts.Add(1)
			w.WriteHeader(c.status)
		})
		dir := t.TempDir()
		server, err := control.New([]string{url}, key, nil)
		if err != nil {
			t.Fatal(err)
		}
		a := newAgent(&identity{dir: dir, session: rundir.Session{
			Boot:    "0011223344556677",
			Session: "s",
			Version: "sha256:v",
			Origin:  time.Second,
		}}, server, io.Discard)
		a.sender.report = control.NewReporter(func(context.Context, []trace.Event) error { return nil })
		fakeDaemon(t, a.block.Socket, map[string]func() any{"POST /reads": func() any {
			return blockapi.Recording{
				Began:   5 * time.Second,
				Reads:   []byte("r"),
				Pack:    "p",
				Hits:    1,
				Misses:  2,
				Wasted:  3,
				Partial: true,
			}
		}})
		a.record.booted(rundir.Monotonic() - readsGrace)
		a.reads.send(t.Context())
		a.reads.send(t.Context())
		want := api.TraceRequest{
			Boot:    "0011223344556677",
			Version: "sha256:v",
			Reads:   []byte("r"),
			Partial: true,
			Pack:    "p",
			Hits:    1,
			Misses:  2,
			Wasted:  3,
		}
		got.Uptime = 0
		if posts.Load() != 1 || got.Boot != want.Boot || got.Version != want.Version || string(got.Reads) != "r" ||
			!got.Partial || got.Began != 4*time.Second ||
			got.Pack != "p" || got.Hits != 1 ||
			got.Misses != 2 ||
			got.Wasted != 3 {
			t.Errorf("%s: %d posts, the last %+v", name, posts.Load(), got)
		}
		var kept progress
		_ = rundir.ReadJSON(dir, rundir.ProgressName, &kept)
		events := a.report.Take()
		if kept.Traced != c.traced || len(events) != 1 || events[0].Stage != trace.Booted ||
			events[0].Attrs["misses"] != "2" {
			t.Errorf("%s: sent %v, want %v; events %+v", name, kept.Traced, c.traced, events)
		}
		a.reads.at = 0 // the trace is sent later, and the event is not repeated
		a.reads.send(t.Context())
		if again := posts.Load() == 2; again == c.traced || len(a.report.Take()) != 0 {
			t.Errorf("%s: sent again: %v", name, again)
		}
	}
}

// The block daemon is told that the boot is over when it is, not only when the recording ends.
func TestBlockDaemonHearsOfBooted(t *testing.T) {
	a := testAgent(t, rundir.Session{})
	told := 0
	fakeDaemon(t, a.block.Socket, map[string]func() any{
		"GET /status":  func() any { return blockapi.Status{} },
		"POST /booted": func() any { told++; return nil },
	})
	for i, name := range []trace.Stage{"greeter-up", trace.Booted, "browser"} {
		if a.marks.report(rundir.MarkLine{Name: string(name)}); told != min(i, 1) {
			t.Errorf("after %s it was told %d times", name, told)
		}
	}
}

// The server stores the boot's marks with the trace, so marks that were made are sent first.
func TestMarksComeBeforeReads(t *testing.T) {
	var paths []string
	url, key := nodekit.TLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		if r.URL.Path == "/v1/node/trace" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = io.WriteString(w, "{}")
	})
	dir := t.TempDir()
	server, err := control.New([]string{url}, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := newAgent(&identity{dir: dir, session: rundir.Session{Session: "s", Until: "browser"}}, server, io.Discard)
	a.reads.trace = new(api.TraceRequest)
	a.record.booted(rundir.Monotonic() - readsGrace)
	a.marks.report(rundir.MarkLine{Name: "browser"})
	a.reads.send(t.Context())
	if want := []string{"/v1/node/events", "/v1/node/trace"}; !slices.Equal(paths, want) {
		t.Errorf("asked for %v, want %v", paths, want)
	}
}
