package storm

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/bench"
)

// A line compares a run with the last run without the change, of the same number of nodes and rates.
func TestPairRows(t *testing.T) {
	run := func(system string, last float64, c change) stormRun {
		return stormRun{System: system, Nodes: 2, NodeRate: 1e7, Unit: 10, Last: last, Pair: true, Change: c}
	}
	far := change{Delay: 1500 * time.Microsecond, Cold: true}
	slower := run("nfs", 60, far)
	slower.NodeRate = 5e6
	r := &report{}
	for _, x := range []stormRun{run("peers", 10, change{}), run("peers", 11, far), run("nfs", 30, change{}), slower} {
		r.add(x)
	}
	var got []string
	for _, x := range r.pairRows() {
		got = append(got, strings.Join(x, "|"))
	}
	const what = "a round trip is 1.5ms longer; the server's files are not in its memory"
	want := "peers|2|10mbit|" + what + "|1.10|1.00|1.10\nnfs|2|5mbit|" + what + "|6.00|-|-"
	if text := strings.Join(got, "\n"); text != want || len(r.Runs) > 0 {
		t.Errorf("%d other runs, and\n%s\nwant\n%s", len(r.Runs), text, want)
	}
}

// Runs of two builds are pairs: first with the other build's programs, then with this build's.
func TestPairsOfTwoBuilds(t *testing.T) {
	other := t.TempDir()
	for _, name := range []string{"pando", "pando-init"} {
		if err := os.WriteFile(filepath.Join(other, name), []byte("#!/bin/sh\necho '{\"release\": "+
			"\"other-1.0\"}'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	s, err := New(others(), []string{"--dir", t.TempDir(), "--nodes", "2", "--against", other}, &out, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if s.againstRelease, err = bench.ReleaseOf(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	plan := s.plan()
	if len(plan) != 2*len(withKSystems) {
		t.Fatalf("%d runs", len(plan))
	}
	for i := 0; i < len(plan); i += 2 {
		first, second := plan[i], plan[i+1]
		if first.Bin != other || first.Release != "other-1.0" || first.Change != (change{}) || !first.Pair ||
			second.Bin != "" || second.Release != "" || second.Change != (change{Build: true}) || !second.Pair {
			t.Errorf("%+v, then %+v", first, second)
		}
		if s.job = first; s.programs() != other {
			t.Errorf("the first one is made by the programs in %s", s.programs())
		}
		if s.job = second; s.programs() != s.Bin {
			t.Errorf("the second one is made by the programs in %s", s.programs())
		}
	}
	for _, args := range [][]string{{"--against", t.TempDir()}, {"--against", other, "--systems", "nbd"}} {
		if _, err := New(others(), append([]string{"--dir", t.TempDir(), "--nodes", "2"}, args...), &out,
			&out); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}

// A change applies to storms only, and is bounded.
func TestCheckChange(t *testing.T) {
	for _, args := range [][]string{{"--delay", "2s"}, {"--delay", "-1ms"}, {"--cold", "--fault", "all"},
		{"--delay", "1ms", "--guests", "1"}, {"--cold", "--tell"}} {
		var out strings.Builder
		if _, err := New(others(),
			append([]string{"--dir", t.TempDir(), "--nodes", "2", "--systems", "peers"}, args...), &out,
			&out); err == nil ||
			!strings.Contains(out.String(), "--delay") {
			t.Errorf("%v: got %v, %s", args, err, &out)
		}
	}
}

// Pando and a rival run unchanged, and with a longer round trip and a cold server. The bytes are the same, and a system
// with sequential requests takes longer.
func TestStormChanged(t *testing.T) {
	needFull(t)
	s, out := newTestStorm(
		t,
		"--nodes",
		"1",
		"--think",
		"0",
		"--systems",
		"chunks,prefetch",
		"--delay",
		"20ms",
		"--cold",
	)
	if err := s.Measure(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var r report
	b, err := os.ReadFile(filepath.Join(s.Dir, "storm.json"))
	if err != nil || json.Unmarshal(b, &r) != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 0 || len(r.Pairs) != 4 {
		t.Fatalf("%d runs and %d of pairs, want 4 of these", len(r.Runs), len(r.Pairs))
	}
	for i := 0; i < 4; i += 2 {
		plain, far := r.Pairs[i], r.Pairs[i+1]
		if plain.Change != (change{}) || far.Change != (change{Delay: 20 * time.Millisecond, Cold: true}) ||
			plain.System != far.System {
			t.Fatalf("pair %d: %s with %+v, %s with %+v", i/2, plain.System, plain.Change, far.System, far.Change)
		}
		if far.Each[0].Wait99 < 0.02 {
			t.Errorf(
				"%s: the longest of the waits is %g s, and a round trip alone takes 0.02",
				far.System,
				far.Each[0].Wait99,
			)
		}
	}
	nothingLeft(t, s)
}

// After forgetFiles the kernel reads a file from disk again.
func TestForgetFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("dropping caches needs root")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := forgetFiles(t.Context()); err != nil {
		t.Fatal(err)
	}
	if resident := residentOf(t, file); resident > 1<<20 {
		t.Errorf("%d bytes are still in memory", resident)
	}
}

// residentOf returns how many bytes of a file are in the page cache.
func residentOf(t *testing.T, file string) (n int64) {
	t.Helper()
	out, err := exec.Command("fincore", "--bytes", "--noheadings", "--output", "RES", file).Output()
	if err == nil {
		_, err = fmt.Sscan(string(out), &n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}
