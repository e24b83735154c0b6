package storm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/bench"
)

// faultOf returns a run of ten nodes, some of which failed.
func faultOf(name, release string, failed int, discarded bool) stormRun {
	r := stormRun{
		Fault:     name,
		Release:   release,
		System:    bestName(),
		Nodes:     10,
		Unit:      5,
		Discarded: discarded,
		Load:      bench.Load{Busy: 0.71, Own: 0.71},
	}
	for i := range 10 {
		n := nodeRun{Booted: 6, Taken: bench.Usage{Incidents: map[string]int{"peer-left": 1}}}
		if i < failed {
			n.Failed = "node 0: wrong bytes"
		}
		r.Each = append(r.Each, n)
	}
	return r
}

// The worst of several runs with a fault counts: one with failed nodes, otherwise the slowest. Discarded runs come
// last.
func TestWorstRunOfAFaultCounts(t *testing.T) {
	took := func(last float64, failed int, discarded bool) stormRun {
		r := faultOf("short-peer", "a", failed, discarded)
		r.Last = last
		return r
	}
	r := &report{}
	for i, x := range []struct {
		run  stormRun
		want int
	}{
		{took(50, 0, true), 0},
		{took(20, 0, false), 1},
		{took(30, 0, false), 2},
		{took(10, 0, false), 2},
		{took(5, 1, false), 4},
		{took(5, 2, true), 5},
		{took(40, 0, false), 5},
	} {
		r.Faults = append(r.Faults, x.run)
		if got := r.faultRun("short-peer"); got != x.want {
			t.Errorf("of %d runs number %d counts, want %d", i+1, got, x.want)
		}
	}
	if got := strings.Join(r.faultRows()[0], "|"); !strings.Contains(got, "|10|8|") ||
		!strings.Contains(got, "|**failed**|") {
		t.Errorf("its line: %s", got)
	}
	if got := r.faultRun("endless-peer"); got != -1 {
		t.Errorf("another fault: %d", got)
	}
}

// An error that ends a run with a fault belongs to its nodes; an interruption belongs to no node.
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
		if r.failed() && (r.Last != 5 || len(r.Each[1].Failed) > bench.MostReason+4) {
			t.Errorf("%s: the last after %g s, because of %q", x.name, r.Last, r.Each[1].Failed)
		}
	}
	none := stormRun{Fault: "short-peer", Each: []nodeRun{{Failed: "x"}}}
	if err := none.finish(); err != nil || none.Last != 0 {
		t.Errorf("no node booted: %g, %v", none.Last, err)
	}
}

// A failed node is kept in the results of its run: the other nodes boot, later faults are measured, and the command
// fails.
func TestStormWithAFailedNode(t *testing.T) {
	needFull(t)
	s, out := newTestStorm(t, "--nodes", "3", "--think", "0.1", "--fault", "cache-empty,cache-warm")
	runs := 0
	s.ready = func() {
		if runs++; runs != 2 {
			return
		}
		// the daemon then cannot make its socket
		if err := os.RemoveAll(filepath.Join(s.Dir, "nodes", "1")); err != nil {
			t.Error(err)
		}
	}

	err := s.Measure(t.Context())
	if err == nil || !strings.Contains(err.Error(), "fault cache-empty: node 1") {
		t.Errorf("%v\n%s", err, out)
	}
	r, readErr := bench.ReadJSON[report](filepath.Join(s.Dir, "storm.json"))
	if readErr != nil || len(r.Faults) != 3 {
		t.Fatalf("%v, %v", r, readErr)
	}
	bad := r.Faults[1]
	if bad.Fault != "cache-empty" || bad.missing() != 1 || bad.Each[1].Failed == "" || bad.Each[0].Booted <= 0 ||
		bad.Last <= 0 ||
		bad.Release == "" {
		t.Errorf("got %+v", bad)
	}
	if got := strings.Join(r.faultRows()[1], "|"); !strings.Contains(got, "|3|2|0|**failed**|") {
		t.Errorf("its line: %q", got)
	}
	nothingLeft(t, s)
}
