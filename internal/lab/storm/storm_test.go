package storm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pando/internal/bench"
	"pando/internal/lab/rivals"
	"pando/internal/testkit"
)

func TestStormFlags(t *testing.T) {
	s, err := New(
		others(),
		[]string{"--nodes", "1,40", "--rate", "4mbit", "--server-rate", "1gbit", "--systems", "pack", "--reads", "a,b"},
		io.Discard,
		io.Discard,
	)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.nodes, []int{1, 40}) || !slices.Equal(s.wanted, []string{"pack"}) ||
		!slices.Equal(s.Traces, []string{"a", "b"}) {
		t.Errorf("got nodes %v, systems %v, traces %v", s.nodes, s.wanted, s.Traces)
	}
	if s.rate != 4*testkit.Mbit || s.uplink != testkit.Gbit ||
		s.command != "pando-lab storm --nodes 1,40 --rate 4mbit --server-rate 1gbit --systems pack --reads a,b" {
		t.Errorf("got links of %s and %s, command %q", s.rate, s.uplink, s.command)
	}
	for _, args := range [][]string{{"--nodes", "0"}, {"--nodes", "1,x"}, {"--rate", "fast"},
		{"--systems", "carrier-pigeon"}, {"--runs", "0"},
		{"--think", "-1"}, {"rest"},
		// a trace in a file has no marks
		{"--systems", "chunks", "--until", "browser", "--reads", "file"}} {
		var told bytes.Buffer
		if _, err := New(others(), args, io.Discard, &told); err == nil || told.Len() == 0 {
			t.Errorf("%v: got %v and told %q", args, err, told.String())
		}
	}
}

// All systems are measured before the next number of nodes, the largest first, and again in the next round. A rival is
// measured with at most its own largest number.
func TestStormPlanAlternates(t *testing.T) {
	s := &Storm{rivals: rivals.All(), nodes: []int{1, 20, 10}, wanted: []string{"prefetch", "nbd"}, runs: 2}
	var got []string
	for _, j := range s.plan() {
		got = append(got, fmt.Sprintf("%s:%d", j.System, j.Nodes))
	}
	if want := strings.Fields(strings.Repeat("prefetch:20 prefetch:10 nbd:10 prefetch:1 nbd:1 ", 2)); !slices.Equal(
		got,
		want,
	) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRoundRate(t *testing.T) {
	for r, want := range map[float64]testkit.Rate{1: 100 * testkit.Kbit, 4.9e6: 4500 * testkit.Kbit,
		5e6: 5 * testkit.Mbit, 1.6e6: 1500 * testkit.Kbit,
		99e6: 90 * testkit.Mbit, 1e12: 500 * testkit.Mbit} {
		if got := roundRate(r); got != want {
			t.Errorf("%g: got %s, want %s", r, got, want)
		}
	}
}

// storms returns runs with round figures: W is 1 MB, a boot reads 4 MB.
func storms() *report {
	one := stormRun{
		System:     "pack",
		Nodes:      1,
		NodeRate:   1e6,
		Unit:       10,
		BootSet:    1e6,
		Read:       4e6,
		ServerSent: 1.1e6,
		Load:       bench.Load{Busy: 0.3},
		Each: []nodeRun{
			{
				Booted: 20,
				Link:   1e6,
				Taken:  bench.Usage{Received: map[string]int64{"server": 1e6}, CPU: 0.5, Memory: 20e6},
			},
		},
	}
	two := one
	two.Nodes, two.Unit, two.ServerSent = 2, 5, 1.5e6
	two.Each = []nodeRun{
		{Booted: 11, Link: 1e6, Taken: bench.Usage{Received: map[string]int64{"server": 1e6}}},
		{Booted: 12, Link: 1e6, Taken: bench.Usage{Received: map[string]int64{"server": 2e5, "peer": 8e5}}},
	}
	busy := two
	busy.Load, busy.Discarded, busy.System = bench.Load{Busy: 0.9}, true, "chunks"
	r := &report{BootSet: 1e6, Read: 4e6, Runs: []stormRun{one, two, busy}}
	for i := range r.Runs {
		if err := r.Runs[i].finish(); err != nil {
			panic(err)
		}
	}
	return r
}

func TestStormFigures(t *testing.T) {
	r := storms()
	two := r.Runs[1]
	for name, x := range map[string][2]float64{
		"t_first": {two.First, 11}, "t_p50": {two.Median, 11.5}, "t_last": {two.Last, 12},
		"amplification": {two.amplification(), 1.5},
		"wire":          {two.wire(), 0.25}, "peers": {two.peers(), 0.4},
	} {
		if math.Abs(x[0]-x[1]) > 1e-9 {
			t.Errorf("%s: got %g, want %g", name, x[0], x[1])
		}
	}
	// 12 s are 2.4 units of 5 s, 20 s were 2 units of 10 s.
	if alone, _ := r.Alone(two.kind(), false); math.Abs(two.units()/alone-1.2) > 1e-9 {
		t.Errorf("storm ratio: got %g, want 1.20", two.units()/alone)
	}
	if err := (&stormRun{}).finish(); err == nil {
		t.Error("a run without nodes has figures")
	}
	if !math.IsNaN(bench.Median(nil)) || bench.Median([]float64{1, 2, 4}) != 2 {
		t.Error("median")
	}
}

// The ratio to a single node is marked if that node's link had another rate.
func TestStormRatioOfAnotherRate(t *testing.T) {
	r := storms()
	r.Runs[0].NodeRate, r.Runs[1].NodeRate = 2e6, 1e6
	if text := r.table(false); !strings.Contains(text, "~1.20") || !strings.Contains(text, "~10.0 s") ||
		!strings.Contains(text, "another rate") {
		t.Errorf("got\n%s", text)
	}
	r.Runs[1].NodeRate = 2e6
	if text := r.table(false); strings.Contains(text, scaledMark) || !strings.Contains(text, "1.20") {
		t.Errorf("of one rate: got\n%s", text)
	}
}

// The table omits figures of discarded runs; with --busy it shows them with a mark.
func TestStormTable(t *testing.T) {
	r := storms()
	text := r.table(false)
	if !strings.Contains(text, "2.40") || !strings.Contains(text, "discarded: the machine was 90 % busy") ||
		strings.Contains(text, "*") {
		t.Errorf("got\n%s", text)
	}
	if text := r.table(true); strings.Contains(text, "discarded") || !strings.Contains(text, "chunks*") {
		t.Errorf("with --busy: got\n%s", text)
	}
	again := r.Runs[1]
	again.Last *= 1.5
	again.Each = []nodeRun{{Booted: 12, Wait99: 0.25, Taken: bench.Usage{Hits: 9e5, Misses: 1e5, Wasted: 5e4}}}
	r.Runs = append(r.Runs, again)
	if text := r.table(false); !strings.Contains(text, "3.60 (2.40 to 3.60)") || !strings.Contains(text, "10.0 s") {
		t.Errorf("two runs: want the slower and both, and that one alone takes 10 s on these links; got\n%s", text)
	}
	if got := strings.Join(again.costRow(), "|"); got != "pack|2|1mbit|0.0 s|250 ms|0.00|90.0 %|0.05 MB|-|-|0.00 "+
		"s|0 MB" {
		t.Errorf("what it took: got %s", got)
	}
	if line := r.Runs[2].line(); !strings.Contains(line, "DISCARDED") {
		t.Errorf("got %s", line)
	}
	file := filepath.Join(t.TempDir(), "storm.json")
	if err := r.save(file); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	var back report
	if err != nil || json.Unmarshal(b, &back) != nil || !reflect.DeepEqual(back.Runs, r.Runs) {
		t.Errorf("what was saved is not what was measured (%v)", err)
	}
}

// Of an even number of runs the slower of the two in the middle is the median.
func TestTypical(t *testing.T) {
	r := &report{}
	for i, last := range []float64{4, 1, 3, 2, 5} {
		r.Runs = append(r.Runs, stormRun{System: "pack", Nodes: 1, Unit: 1, Last: last})
		want := []float64{4, 4, 3, 3, 3}[i]
		if got, ok := r.typical(kind{1, "pack", 0, 0}, false); !ok || got.Last != want {
			t.Errorf("of %d runs the one that took %g s, want %g", i+1, got.Last, want)
		}
	}
}
