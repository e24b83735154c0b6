package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// What was measured, and how, is said once where it is the same for all runs, and else for each.
func TestNotes(t *testing.T) {
	r := &report{}
	if got := r.notes(); got != "" {
		t.Errorf("of nothing: %q", got)
	}
	r.Runs = []stormRun{{Release: "v1", Think: 0.5, Overhead: 24}, {Release: "v1", Think: 0.5, Overhead: 24}}
	r.Guests = []guestRun{{Release: "v1"}}
	if got, want := r.notes(), "Release of Pando: `v1`. Between its reads a boot thinks for 0.5 W/(eta B) in all "+
		"(`--think`), each pause in proportion to the recorded one."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r.Command = "pando-lab storm --dir build/storm\npando-lab storm --add"
	if got := r.notes(); !strings.HasSuffix(got, "recorded one. Of commands without `--dir` it was not noted.") {
		t.Errorf("got %q", got)
	}
	r.Runs = append(r.Runs, stormRun{Release: unknownRelease, Overhead: 24})
	r.Faults = []stormRun{{Think: 0.5}} // as it was kept before releases were
	got := r.notes()
	for _, want := range []string{"Releases of Pando: `v1` (3 runs), `build unknown` (1 run), not recorded (1 " +
		"run).", " for 0, or 0.5 W/(eta B) in all", "Of 4 runs, 1 had links"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}

// A run that was discarded beside one that counts is not forgotten, nor why.
func TestDiscardedText(t *testing.T) {
	good := stormRun{System: "torrent", Nodes: 10, NodeRate: 25e6, Load: load{Busy: 0.5}}
	bad := good
	bad.Discarded, bad.Load.Busy, bad.Load.Own = true, 0.71, 0.71
	if got := discardedText([]stormRun{good}); got != "" {
		t.Errorf("nothing was discarded: %q", got)
	}
	if got, want := discardedText([]stormRun{bad, good}), "\n- discarded, and in no figure: `torrent`, N=10, "+
		"links of 25mbit: the machine was 71 % busy, more than 70 %\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	bad.Fault, bad.Change.Cold = "short-peer", true
	if got := discardedText([]stormRun{bad}); !strings.Contains(
		got,
		"25mbit, fault short-peer, the server's files are not in its memory: the machine",
	) {
		t.Errorf("got %q", got)
	}
}

// Results of before, without releases and what links count, are read.
func TestOldResults(t *testing.T) {
	var r report
	old := `{"image": "storm", "runs": [{"system": "peers", "nodes": 1, "node_rate": 1000000, "unit": 2, "t_last": 3, "each": [{"booted": 3}]}],
		"guests": [{"system": "pando", "guests": 1, "rate": 20000000, "booted": [4], "since_init": [2], "root_sent": 1000000}]}`
	if err := json.Unmarshal([]byte(old), &r); err != nil {
		t.Fatal(err)
	}
	if m, ok := r.like(kind{1, "peers", 0, 0}, false); !ok || m.units() != 1.5 || m.Release != "" || m.Overhead != 0 {
		t.Errorf("got %+v", m)
	}
	if got := r.notes(); !strings.Contains(got, "Release of Pando: not recorded.") ||
		!strings.Contains(got, "Of 1 run, 1 had links") {
		t.Errorf("got %q", got)
	}
}
