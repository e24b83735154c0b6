package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// stormAt is a storm of ten nodes that began so many seconds after another one.
func stormAt(system string, seconds int) stormRun {
	began := time.Date(2026, 11, 26, 12, 0, seconds, 0, time.UTC)
	return stormRun{
		System:     system,
		Nodes:      10,
		NodeRate:   20e6,
		ServerRate: 20e6,
		Began:      began,
		Unit:       10,
		Last:       60,
		BootSet:    1000,
		Release:    "new",
		Each:       []nodeRun{{Booted: 60}},
	}
}

func TestJoin(t *testing.T) {
	r := &report{Version: "v", BootSet: 1000, Machine: "m", Command: "a\nb", Runs: []stormRun{stormAt("peers", 0)}}
	paired := stormAt("peers", 300)
	paired.Pair = true
	other := &report{
		Version: "v",
		BootSet: 1000,
		Machine: "m",
		Command: "a\nc",
		Date:    time.Now(),
		Runs:    []stormRun{stormAt("peers", 0), stormAt("nfs", 30)},
		Pairs:   []stormRun{paired},
		Failed:  []stormRun{{System: "nbd", Why: "it hung", Began: time.Now()}},
	}
	for range 2 { // what was added once is there
		if err := r.join(other); err != nil {
			t.Fatal(err)
		}
		if len(r.Runs) != 2 || len(r.Pairs) != 1 || len(r.Failed) != 1 || r.Command != "a\nb\nc" ||
			!r.Date.Equal(other.Date) {
			t.Errorf("%d runs, %d of pairs, %d that failed, %q", len(r.Runs), len(r.Pairs), len(r.Failed), r.Command)
		}
	}
}

// A lab that began with a copy of the results has runs that were made anew since.
func TestJoinKeepsWhatIsNewer(t *testing.T) {
	old := stormAt("peers", 0)
	old.Release = "old"
	r := &report{Version: "v", BootSet: 1000, Runs: []stormRun{stormAt("peers", 100)}}
	if err := r.join(&report{Version: "v", BootSet: 1000, Runs: []stormRun{old}}); err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 1 || r.Runs[0].Release != "new" {
		t.Errorf("%+v", r.Runs)
	}
}

func TestJoinRefuses(t *testing.T) {
	for name, other := range map[string]*report{"version": {Version: "w", BootSet: 1000}, "mark": {Version: "v", BootSet: 1000, Until: "browser"}} {
		r := &report{Version: "v", BootSet: 1000}
		if err := r.join(other); err == nil || len(r.Runs) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Of another boot pack all is taken but storms of Pando's own systems, and the page says what it is of.
func TestJoinAnotherPack(t *testing.T) {
	fault, withK := stormAt(bestName(), 600), stormAt(bestName(), 700)
	fault.Fault, withK.K, withK.BootSet = "peers-killed", &runK{}, 2000
	rival := stormAt("nfs", 30)
	rival.BootSet = 2000
	other := &report{
		Version: "v",
		BootSet: 2000,
		Machine: "older",
		Runs:    []stormRun{stormAt(bestName(), 0), rival},
		Faults:  []stormRun{fault},
		WithK:   []stormRun{withK},
		Guests:  []guestRun{{System: "nfs", Guests: 2}, {System: "pando", Guests: 2}},
	}
	r := &report{
		Version: "v",
		BootSet: 1000,
		Machine: "newer",
		Guests:  []guestRun{{System: "pando", Guests: 2, Release: "new"}},
	}
	if err := r.join(other); err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 1 || r.Runs[0].System != "nfs" || len(r.Faults) != 1 || r.FaultSet != 2000 || len(r.WithK) != 1 ||
		len(r.Guests) != 2 ||
		r.Guests[0].Release != "new" {
		t.Errorf("%+v", r)
	}
	if r.Machine != "newer; then older" {
		t.Errorf("machines: %q", r.Machine)
	}
	again := &report{Version: "v", BootSet: 3000, Faults: []stormRun{fault}}
	if err := again.join(other); err != nil || len(again.Faults) != 1 || again.FaultSet != 0 {
		t.Errorf("there are faults: %v, %+v", err, again)
	}
}

// The page says which storms went on side by side.
func TestBesideText(t *testing.T) {
	alone := &report{Runs: []stormRun{stormAt("peers", 0), stormAt("nfs", 60)}}
	if text := alone.besideText(); text != "" {
		t.Errorf("one after the other: %q", text)
	}
	beside := &report{Runs: []stormRun{stormAt("peers", 0), stormAt("nfs", 59), stormAt("nbd", 300)}}
	if text := beside.besideText(); !strings.Contains(text, "2 of these storms") {
		t.Errorf("side by side: %q", text)
	}
}

// Rivals have no boot pack, so they can be added to what was measured with another one of the same version, and the
// page says so.
func TestRivalsOfAnotherPack(t *testing.T) {
	s := &storm{lab: lab{dir: t.TempDir()}, add: true, wanted: []string{"nfs", "whole"}}
	before := &report{Version: "v", BootSet: 2e6, Runs: []stormRun{{System: bestName(), BootSet: 2e6}}}
	if err := before.save(filepath.Join(s.dir, "storm.json")); err != nil {
		t.Fatal(err)
	}
	m := &material{version: "v", bootSet: 1e6}
	rep, err := s.results(m)
	if err != nil || rep.BootSet != 2e6 || len(rep.Runs) != 1 {
		t.Fatalf("%+v, %v", rep, err)
	}
	if rep.rivalSetText() != "" {
		t.Errorf("the page says %q before there are any", rep.rivalSetText())
	}
	run := stormAt("nfs", 0)
	run.BootSet = 1e6
	rep.add(run)
	if text := rep.rivalSetText(); !strings.Contains(text, "1.00 MB: `nfs` with 10") {
		t.Errorf("the page says %q", text)
	}
	s.wanted = append(s.wanted, bestName())
	if _, err := s.results(m); err == nil {
		t.Error("Pando's own are added to those of another pack")
	}
}

// Runs that are added on another machine, or on the same one with another kernel, do not stand as if the first had
// made them.
func TestAddedMachineIsNamed(t *testing.T) {
	s := &storm{lab: lab{dir: t.TempDir()}, add: true, wanted: []string{"nfs"}}
	if err := (&report{Version: "v", BootSet: 1, Machine: "an older one"}).save(filepath.Join(s.dir, "storm.json")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		rep, err := s.results(&material{version: "v", bootSet: 1})
		if want := "an older one; then " + machine(); err != nil || rep.Machine != want {
			t.Errorf("%q, %v, want %q", rep.Machine, err, want)
		}
		if err := rep.save(filepath.Join(s.dir, "storm.json")); err != nil {
			t.Fatal(err)
		}
	}
}
