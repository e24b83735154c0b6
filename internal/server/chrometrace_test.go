package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/trace"
)

// traceEvent is one event of the Trace Event Format (document "Trace Event Format" of the Chromium project), with the
// fields that the server writes.
type traceEvent struct {
	Name  string            `json:"name"`
	Phase string            `json:"ph"`
	Time  *float64          `json:"ts"`
	Took  *float64          `json:"dur"`
	PID   *int              `json:"pid"`
	TID   *int              `json:"tid"`
	Scope string            `json:"s"`
	Args  map[string]string `json:"args"`
}

// checkTrace checks a file against the format, more strictly than viewers do: Perfetto's importer drops what it does
// not understand, and says so only in a table of statistics.
func checkTrace(t *testing.T, raw []byte) (names map[string]int) {
	t.Helper()
	var file struct {
		Unit   string       `json:"displayTimeUnit"`
		Events []traceEvent `json:"traceEvents"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if file.Unit != "ms" || len(file.Events) == 0 {
		t.Errorf("unit %q, %d events", file.Unit, len(file.Events))
	}
	type line struct{ pid, tid int }
	named, processes, last, ends := map[line]bool{}, map[int]bool{}, map[line]float64{}, map[line]float64{}
	names = map[string]int{}
	for i, e := range file.Events {
		at := fmt.Sprintf("event %d (%s %q)", i, e.Phase, e.Name)
		if e.PID == nil || *e.PID < 1 || e.TID == nil || *e.TID < 0 || e.Time == nil || *e.Time < 0 || e.Name == "" {
			t.Fatalf("%s: without process, thread, time or name", at)
		}
		on := line{*e.PID, *e.TID}
		switch e.Phase {
		case "M":
			if e.Name != "process_name" && e.Name != "thread_name" || e.Args["name"] == "" || len(e.Args) != 1 ||
				e.Took != nil ||
				e.Scope != "" {
				t.Errorf("%s: names nothing: %v", at, e.Args)
			}
			if e.Name == "process_name" {
				processes[on.pid] = true
			} else if on.tid == 0 || named[on] {
				t.Errorf("%s: thread %d is named twice, or is none", at, on.tid)
			} else {
				named[on] = true
			}
			continue
		case "X":
			if e.Took == nil || *e.Took <= 0 || e.Scope != "" {
				t.Errorf("%s: a span without a length", at)
			}
			if *e.Time < ends[on] {
				t.Errorf("%s: begins at %v, before the one before ends, at %v", at, *e.Time, ends[on])
			}
			ends[on] = *e.Time + *e.Took
		case "i":
			if e.Took != nil || !slices.Contains([]string{"t", "p", "g"}, e.Scope) {
				t.Errorf("%s: no scope, or a length", at)
			}
		default:
			t.Errorf("%s: phase", at)
		}
		if !processes[on.pid] || !named[on] || *e.Time < last[on] {
			t.Errorf("%s: on a line without names, or out of order", at)
		}
		last[on] = *e.Time
		names[e.Name]++
	}
	return names
}

// TestChromeTraceOfRealBoots: the trace files of a successful, a failed and a running boot have the right format and
// every stage, with microseconds of the timeline.
func TestChromeTraceOfRealBoots(t *testing.T) {
	s, base, token := startDashboard(t)
	s.addImage()
	r := readRecorded(t)
	up := s.node(1).replay(r, trace.Booted)
	p := s.node(2).play(r)
	s.clock.add(20 * time.Second)
	p.report(trace.Device, 10*time.Second)
	p.Events = []trace.Event{
		{
			Stage:   trace.Root,
			Kind:    trace.Fail,
			Offset:  12 * time.Second,
			Message: "a \"quoted\" text, <tags> and \u2028",
		},
	}
	s.clock.add(5 * time.Second)
	p.report(trace.Root, 15*time.Second)
	on := s.node(3).play(r)
	on.report(trace.Init, time.Second)
	in := ask(t, "POST", base+"/login", "", []byte("to=/&token="+token))
	cookie := in.header.Get("Set-Cookie")
	for id, least := range map[fleet.BootID]int{up: 15, p.boot: 8, on.boot: 4} {
		got := ask(t, "GET", base+"/boots/"+string(id)+"/trace.json", cookie, nil)
		if got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		names := checkTrace(t, []byte(got.body))
		if len(names) < least {
			t.Errorf("boot %s has %d names: %v", id, len(names), names)
		}
		if id != up {
			continue
		}
		b, err := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile)).Boot(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range b.Steps {
			if names[string(step.Stage)] == 0 {
				t.Errorf("%s is not in the trace: %v", step.Stage, names)
			}
			at, err := json.Marshal(float64(step.Start.Nanoseconds()) / 1e3)
			if want := `"ts": ` + string(at) + ","; err != nil || !strings.Contains(got.body, want) {
				t.Errorf("%s: nothing begins at %s, %v", step.Stage, want, err)
			}
		}
	}
}
