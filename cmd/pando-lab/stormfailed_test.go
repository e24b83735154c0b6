package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// faultOf is a run of ten nodes on some of which something was wrong.
func faultOf(name, release string, failed int, discarded bool) stormRun {
	r := stormRun{
		Fault:     name,
		Release:   release,
		System:    bestName(),
		Nodes:     10,
		Unit:      5,
		Discarded: discarded,
		Load:      load{Busy: 0.71, Own: 0.71},
	}
	for i := range 10 {
		n := nodeRun{Booted: 6, Taken: taken{Incidents: map[string]int{"peer-left": 1}}}
		if i < failed {
			n.Failed = "node 0: wrong bytes"
		}
		r.Each = append(r.Each, n)
	}
	return r
}

// The aim of a fault can be missed, and trying again with the same release does not change that.
func TestFaultTargetsAreMissed(t *testing.T) {
	const begins = "a fifth more peers, which break off"
	for _, x := range []struct {
		name, want string
		runs       []stormRun
	}{
		{"good", "all|10 of 10|met", []stormRun{faultOf("short-peer", "a", 0, false)}},
		{"one node failed", "all|9 of 10|**missed**", []stormRun{faultOf("short-peer", "a", 1, false)}},
		{"and all was well again", "all|9 of 10|**missed**", []stormRun{faultOf("short-peer", "a", 1, false), faultOf("short-peer", "a", 0, false)}},
		{"and it was worse", "all|8 of 10|**missed**", []stormRun{faultOf("short-peer", "a", 1, false), faultOf("short-peer", "a", 2, true)}},
		{"a release later", "all|10 of 10|met", []stormRun{faultOf("short-peer", "a", 1, false), faultOf("short-peer", "b", 0, false)}},
		{"releases were not noted", "all|10 of 10|met", []stormRun{faultOf("short-peer", "", 1, false), faultOf("short-peer", "", 0, false)}},
		{"the machine was busy", "all|10 of 10|**discarded: the machine was 71 % busy, more than 70 " +
			"%**", []stormRun{faultOf("short-peer", "a", 0, true)}},
		{"at first, or at last", "all|10 of 10|met", []stormRun{faultOf("short-peer", "a", 0, false), faultOf("short-peer", "a", 0, true)}},
		{"another fault", "all|not measured|", []stormRun{faultOf("endless-peer", "a", 1, false)}},
	} {
		if got := find(t, (&report{Faults: x.runs}).faultTargets(), begins); got != x.want {
			t.Errorf("%s: got %q, want %q", x.name, got, x.want)
		}
	}
	r := &report{Faults: []stormRun{faultOf("short-peer", "a", 1, false)}}
	if got := strings.Join(r.faultRows()[0], "|"); !strings.Contains(got, "|10|9|") ||
		!strings.Contains(got, "|**failed**|") {
		t.Errorf("its line: %s", got)
	}
	if got := r.failedText(); got != "\n- `short-peer` failed on node 0: wrong bytes\n" {
		t.Errorf("what was wrong: %q", got)
	}
}

// Nor does it make a fault look cheaper: of one release, and one rate, the slowest run counts.
func TestSlowestFaultCounts(t *testing.T) {
	took := func(release string, last float64, rate int64) stormRun {
		r := faultOf("short-peer", release, 0, false)
		r.Last, r.NodeRate, r.ServerRate = last, rate, rate
		return r
	}
	busy := took("a", 40, 1)
	busy.Discarded = true
	r := &report{Faults: []stormRun{took("a", 90, 2), took("a", 20, 1), took("a", 30, 1), took("a", 10, 1), busy}}
	if got := r.faultRun("short-peer"); got != 2 {
		t.Errorf("run %d counts", got)
	}
	r.Faults = append(r.Faults, took("b", 5, 1))
	if got := r.faultRun("short-peer"); got != 5 {
		t.Errorf("a release later run %d counts", got)
	}
}

// So can that of machines with wrong clocks.
func TestSkewIsMissed(t *testing.T) {
	const begins = "machines, emulated, whose clocks"
	bad := guestRun{Release: "a", System: pandoWay, Guests: 3, Skew: 3600}
	bad.add(
		[]guest{{booted: 1, sinceInit: 1}, {}, {booted: 2, sinceInit: 2}},
		[]error{nil, errors.New("guest2: not booted\nafter 10m"), nil},
	)
	good := guestRun{
		Release:   "a",
		System:    pandoWay,
		Guests:    3,
		Skew:      3600,
		Booted:    []float64{1, 2, 3},
		SinceInit: []float64{1, 2, 3},
	}
	r := &report{BootSet: 1, Guests: []guestRun{bad, good}}
	if got := find(t, r.faultTargets(), begins); got != "all|2 of 3|**missed**" {
		t.Errorf("got %q", got)
	}
	if got := r.guestRows()[0][1]; got != "3, of which **2 booted**" ||
		bad.Failed[0] != "guest2: not booted after 10m" {
		t.Errorf("got %q, %q", got, bad.Failed)
	}
	r.Guests[1].Release = "b"
	if got := find(t, r.faultTargets(), begins); got != "all|3 of 3|met" {
		t.Errorf("a release later: got %q", got)
	}
}

// What ended a run is the nodes' when it is one of a fault and came to its end, and nobody's when it was interrupted.
func TestEnded(t *testing.T) {
	late, stop := context.WithTimeoutCause(t.Context(), 0, errors.New("too late"))
	defer stop()
	<-late.Done()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	struck := func() error { return nil }
	errs := []error{nil, fmt.Errorf("node 1: %s", strings.Repeat("wrong ", 200))}
	for _, x := range []struct {
		name   string
		ctx    context.Context
		fault  string
		failed int
	}{{"a fault", t.Context(), "short-peer", 1}, {"that took too long", late, "short-peer", 1}, {"that was " +
		"interrupted", gone, "short-peer", 0}, {"no fault, too long", late, "", 0}} {
		r := stormRun{Fault: x.fault, Unit: 1, Each: []nodeRun{{Booted: 5}, {}}}
		if err := r.ended(x.ctx, errs, struck); err == nil || r.missing() != x.failed {
			t.Errorf("%s: %d failed, %v", x.name, r.missing(), err)
		}
		if r.failed() && (r.Last != 5 || len(r.Each[1].Failed) > mostReason+4) {
			t.Errorf("%s: the last after %g s, because of %q", x.name, r.Last, r.Each[1].Failed)
		}
	}
	none := stormRun{Fault: "short-peer", Each: []nodeRun{{Failed: "x"}}}
	if err := none.finish(); err != nil || none.Last != 0 {
		t.Errorf("no node booted: %g, %v", none.Last, err)
	}
}

// A node that cannot boot is kept with its run; the others boot, the faults after it are measured, and the command
// fails.
func TestStormWithAFailedNode(t *testing.T) {
	s, out := newTestStorm(t, "--nodes", "3", "--think", "0.1", "--fault", "cache-empty,cache-warm")
	runs := 0
	s.ready = func() {
		if runs++; runs != 2 {
			return
		}
		// its daemon has no place for its socket
		if err := os.RemoveAll(filepath.Join(s.dir, "nodes", "1")); err != nil {
			t.Error(err)
		}
	}

	err := s.measure(t.Context())
	if err == nil || !strings.Contains(err.Error(), "fault cache-empty: node 1") {
		t.Errorf("%v\n%s", err, out)
	}
	r, readErr := readReport(filepath.Join(s.dir, "storm.json"))
	if readErr != nil || len(r.Faults) != 3 {
		t.Fatalf("%v, %v", r, readErr)
	}
	bad := r.Faults[1]
	if bad.Fault != "cache-empty" || bad.missing() != 1 || bad.Each[1].Failed == "" || bad.Each[0].Booted <= 0 ||
		bad.Last <= 0 ||
		bad.Release != release {
		t.Errorf("got %+v", bad)
	}
	if got := find(t, r.faultTargets(), "each node has a cache disk"); got != "all|2 of 3|**missed**" {
		t.Errorf("its aim: %q", got)
	}
	nothingLeft(t, s)
}
