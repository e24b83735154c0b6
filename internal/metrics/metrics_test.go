package metrics

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// read returns the text of all metrics.
func read(t *testing.T, s *Site) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// value returns the value of a series, "" if it does not exist.
func value(text, series string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func check(t *testing.T, text, series, want string) {
	t.Helper()
	if got := value(text, series); got != want {
		t.Errorf("%s is %q, want %q", series, got, want)
	}
}

// pasts is a Boots with fixed answers.
type pasts struct {
	before map[fleet.BootID]trace.Progress
	run    func(fleet.BootID) Run
	asked  int
}

func (p *pasts) Before(e trace.Event) (trace.Progress, error) {
	p.asked++
	return p.before[e.Boot], nil
}
func (p *pasts) Run(id fleet.BootID) (Run, error) { return p.run(id), nil }

func site(look Look) *Site {
	return New(
		Options{
			Release: "test",
			Log:     slog.New(slog.DiscardHandler),
			Look:    func(context.Context) (Look, error) { return look, nil },
		},
	)
}

// TestBootsAreCountedFromTheirEvents: an outcome counts once, a failure each time, and bytes by their increase.
func TestBootsAreCountedFromTheirEvents(t *testing.T) {
	s, noon := site(Look{}), time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	p := &pasts{
		run:    func(fleet.BootID) Run { return Run{"lab", "desk", "abc"} },
		before: map[fleet.BootID]trace.Progress{},
	}
	seq := int64(0)
	event := func(boot fleet.BootID, at time.Duration, stage trace.Stage, kind trace.Kind, bytes map[string]int64) {
		t.Helper()
		seq++
		if err := s.Event(trace.Event{Seq: seq, Boot: boot, Node: "pc1", Time: noon.Add(at), Stage: stage, Kind: kind,
			Bytes: bytes}, p); err != nil {
			t.Fatal(err)
		}
	}
	event("a", 0, trace.DHCP, trace.Begin, nil)
	event("a", time.Second, trace.Kernel, trace.End, map[string]int64{"k": 1000})
	event("a", 2*time.Second, trace.Initramfs, trace.End, map[string]int64{"k": 500})
	event("a", 5*time.Second, trace.Manifest, trace.Fail, nil)
	event("a", 6*time.Second, trace.Manifest, trace.Fail, nil)
	event("a", 7*time.Second, trace.Manifest, trace.End, map[string]int64{"server": 10})
	event(
		"a",
		40*time.Second,
		trace.Booted,
		trace.End,
		map[string]int64{"server": 70, "cache": 30, "made up by a node": 5},
	)
	event("a", 50*time.Second, trace.Booted, trace.End, map[string]int64{"server": 70, "cache": 30})
	text := read(t, s)
	run := `group="lab",image="desk",`
	check(t, text, `pando_boots_total{`+run+`outcome="booted",version="abc"}`, "1")
	check(t, text, `pando_boots_total{`+run+`outcome="failed",version="abc"}`, "1")
	check(t, text, `pando_boot_failures_total{stage="manifest"}`, "2")
	check(t, text, `pando_boot_bytes_total{source="k"}`, "1500")
	check(t, text, `pando_boot_bytes_total{source="server"}`, "70")
	check(t, text, `pando_boot_bytes_total{source="cache"}`, "30")
	check(t, text, `pando_boot_bytes_total{source="other"}`, "5")
	check(t, text, `pando_boot_duration_seconds_bucket{`+run+`version="abc",le="30"}`, "0")
	check(t, text, `pando_boot_duration_seconds_bucket{`+run+`version="abc",le="45"}`, "1")
	check(t, text, `pando_boot_duration_seconds_sum{`+run+`version="abc"}`, "40")
	if p.asked != 1 {
		t.Errorf("the past of one boot was read %d times", p.asked)
	}
}

// TestWhatWasCountedBeforeIsNotCountedAgain: a boot that was up before this process started is not counted as a new
// one.
func TestWhatWasCountedBeforeIsNotCountedAgain(t *testing.T) {
	s, noon := site(Look{}), time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	p := &pasts{
		run: func(fleet.BootID) Run { return Run{} },
		before: map[fleet.BootID]trace.Progress{"a": {State: trace.Up, Stage: trace.Booted,
			Started: noon, Ready: noon.Add(time.Minute), Bytes: map[string]int64{"peer": 1000}}},
	}
	err := s.Event(
		trace.Event{
			Seq:   9,
			Boot:  "a",
			Time:  noon.Add(time.Hour),
			Stage: trace.Booted,
			Kind:  trace.End,
			Bytes: map[string]int64{"peer": 1200},
		},
		p,
	)
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, s)
	check(t, text, `pando_boot_bytes_total{source="peer"}`, "200")
	if strings.Contains(text, "pando_boots_total{") {
		t.Error("a boot that was up is counted again")
	}
}

// TestSeriesAreBounded: ten thousand groups with a version each, and nodes that all differ, do not make more series
// than the limits.
func TestSeriesAreBounded(t *testing.T) {
	look := Look{Nodes: map[Standing]int{}, Drift: map[string]int{}}
	for i := range 10_000 {
		look.Nodes[Standing{Run{fmt.Sprintf("g%d", i), "desk", fmt.Sprintf("v%d", i)}, "booted"}] = 1 + i%7
		look.Drift[fmt.Sprintf("g%d", i)] = 1
	}
	s := site(look)
	p := &pasts{run: func(id fleet.BootID) Run { return Run{"g" + string(id), "desk", string(id)} }}
	for i := range 2000 {
		e := trace.Event{
			Seq:   int64(i),
			Boot:  fleet.BootID(fmt.Sprint(i)),
			Time:  time.Unix(int64(i), 0),
			Stage: trace.Booted,
			Kind:  trace.End,
		}
		if err := s.Event(e, p); err != nil {
			t.Fatal(err)
		}
	}
	text := read(t, s)
	if n := strings.Count(text, "\n"); n > 20_000 {
		t.Errorf("%d lines", n)
	}
	if n := strings.Count(text, "\npando_nodes{"); n != maxRuns+1 {
		t.Errorf("%d series of nodes, want %d", n, maxRuns+1)
	}
	if n := strings.Count(text, "\npando_boot_duration_seconds_count{"); n != maxRuns {
		t.Errorf("%d histograms, want %d", n, maxRuns)
	}
	if value(text, `pando_boots_total{group="g1999",image="desk",outcome="booted",version="1999"}`) != "1" {
		t.Error("the latest is forgotten")
	}
	sum := 0
	for line := range strings.Lines(text) {
		var n int
		if i := strings.LastIndex(line, " "); strings.HasPrefix(line, "pando_nodes{") {
			if _, err := fmt.Sscan(line[i:], &n); err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	want := 0
	for _, n := range look.Nodes {
		want += n
	}
	if sum != want {
		t.Errorf("%d nodes are told, there are %d", sum, want)
	}
}

// TestHTTP: requests are counted by route, status and bytes, and paths that clients make up are no labels.
func TestHTTP(t *testing.T) {
	s := site(Look{})
	m := http.NewServeMux()
	m.HandleFunc(
		"GET /o/{id}",
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("12345")) },
	)
	h := s.HTTP("data", m)
	for _, path := range []string{"/o/one", "/o/two", "/made/up"} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil))
	}
	text := read(t, s)
	check(t, text, `pando_http_requests_total{code="200",listener="data",route="/o/{id}"}`, "2")
	check(t, text, `pando_http_sent_bytes_total{listener="data",route="/o/{id}"}`, "10")
	check(t, text, `pando_http_requests_total{code="404",listener="data",route="none"}`, "1")
	check(t, text, `pando_http_requests_in_flight{listener="data"}`, "0")
}

// TestPackets counts DHCP and TFTP.
func TestPackets(t *testing.T) {
	s := site(Look{})
	s.DHCP("DISCOVER", "pxe", "OFFER", false)
	s.DHCP("DISCOVER", "pxe", "", true)
	s.DHCP("REQUEST", "other", "", false)
	s.TFTP("sent", 100)
	s.TFTP("failed", 7)
	text := read(t, s)
	check(t, text, `pando_dhcp_messages_total{answer="offer",client="pxe",message="discover"}`, "1")
	check(t, text, `pando_dhcp_messages_total{answer="refused",client="pxe",message="discover"}`, "1")
	check(t, text, `pando_dhcp_messages_total{answer="none",client="other",message="request"}`, "1")
	check(t, text, `pando_tftp_transfers_total{outcome="failed"}`, "1")
	check(t, text, `pando_tftp_sent_bytes_total`, "107")
}

// TestLog: log lines are counted by level, also those of derived loggers.
func TestLog(t *testing.T) {
	s := site(Look{})
	l := slog.New(s.Log(slog.NewTextHandler(io.Discard, nil)))
	l.Error("one")
	l.With("node", "pc1").WithGroup("g").Error("two")
	l.Warn("three")
	text := read(t, s)
	check(t, text, `pando_log_messages_total{level="error"}`, "2")
	check(t, text, `pando_log_messages_total{level="warn"}`, "1")
	check(t, text, `pando_log_messages_total{level="info"}`, "0")
}

// TestRegistryAway: without the registry the counters of this process are still exported.
func TestRegistryAway(t *testing.T) {
	s := New(
		Options{
			Log:  slog.New(slog.DiscardHandler),
			Look: func(context.Context) (Look, error) { return Look{}, io.ErrUnexpectedEOF },
		},
	)
	text := read(t, s)
	check(t, text, "pando_registry_up", "0")
	if strings.Contains(text, "pando_nodes") || value(text, `pando_tftp_transfers_total{outcome="sent"}`) != "0" {
		t.Error("told what is not known, or not told what is")
	}
}

// TestStoreIsToldWhenCounted: before the first count the metrics do not say that the store is empty.
func TestStoreIsToldWhenCounted(t *testing.T) {
	if text := read(t, site(Look{})); strings.Contains(text, "\npando_store_objects ") ||
		strings.Contains(text, "\npando_store_size_bytes ") {
		t.Error("a store that was not counted has objects")
	}
	text := read(t, site(Look{Counted: true, Objects: 3, Bytes: 500}))
	check(t, text, "pando_store_objects", "3")
	check(t, text, "pando_store_size_bytes", "500")
}

// TestJournals: a server that keeps no journals exports only that fact.
func TestJournals(t *testing.T) {
	text := read(t, site(Look{}))
	check(t, text, "pando_journal_up", "0")
	if n := strings.Count(text, "\npando_journal_"); n != 1 {
		t.Errorf("%d series of journals that are not taken", n)
	}
	text = read(
		t,
		site(
			Look{
				Journals: Journals{
					Up:      true,
					Size:    5,
					Limit:   10,
					Entries: 3,
					Bytes:   400,
					Uploads: map[string]int64{"taken": 2, "disk_full": 1},
					Full:    true,
					Last:    time.UnixMilli(1_700_000_000_500),
				},
			},
		),
	)
	for series, want := range map[string]string{"pando_journal_up": "1", "pando_journal_size_bytes": "5",
		"pando_journal_limit_bytes":   "10",
		"pando_journal_entries_total": "3", "pando_journal_received_bytes_total": "400",
		`pando_journal_uploads_total{outcome="disk_full"}`: "1",
		"pando_journal_disk_full":                          "1",
		"pando_journal_last_upload_timestamp_seconds":      "1.7000000005e+09"} {
		check(t, text, series, want)
	}
}
