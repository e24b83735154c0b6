package storm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/bench"
	"pando/internal/build/packer"
	"pando/internal/chunk"
	"pando/internal/lab/rivals"
	"pando/internal/testkit"
	"pando/internal/trace"
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
		!slices.Equal(s.traces, []string{"a", "b"}) {
		t.Errorf("got nodes %v, systems %v, traces %v", s.nodes, s.wanted, s.traces)
	}
	if s.rate != 4*testkit.Mbit || s.uplink != testkit.Gbit ||
		s.command != "pando-lab storm --nodes 1,40 --rate 4mbit --server-rate 1gbit --systems pack --reads a,b" {
		t.Errorf("got links of %s and %s, command %q", s.rate, s.uplink, s.command)
	}
	for _, args := range [][]string{{"--nodes", "0"}, {"--nodes", "1,x"}, {"--rate", "fast"},
		{"--systems", "carrier-pigeon"}, {"--runs", "0"},
		{"--think", "-1"}, {"rest"}} {
		var told bytes.Buffer
		if _, err := New(others(), args, io.Discard, &told); err == nil || told.Len() == 0 {
			t.Errorf("%v: got %v and told %q", args, err, told.String())
		}
	}
}

// All systems are measured before the next number of nodes, the largest first, and again in the next round. A rival
// is not measured with more nodes than it is good for.
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

func TestUnit(t *testing.T) {
	if got := unit(11_750_000, 100*testkit.Mbit); got != time.Second {
		t.Errorf("11.75 MB at 94 Mb/s of data: got %s, want 1s", got)
	}
}

func at(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }

// Reads of one millisecond are a burst, what comes after the boot is left out, and thinking keeps its proportions.
func TestScript(t *testing.T) {
	reads := []trace.Read{
		{Start: 5, Blocks: 1, At: at(2)},
		{Start: 9, Blocks: 2, At: at(2)},
		{Start: 1, Blocks: 1, At: at(10)},
		{Start: 7, Blocks: 1, At: at(99)},
	}
	s := newScript(packer.Recording{Reads: reads, Booted: at(50)})
	if len(s.reads) != 3 || s.length != at(10) {
		t.Fatalf("got %d reads in %s", len(s.reads), s.length)
	}
	if want := []burst{{0, 2, at(2)}, {2, 3, at(8)}}; !slices.Equal(s.bursts, want) {
		t.Errorf("got %v, want %v", s.bursts, want)
	}
	if want := []burst{{0, 2, at(200)}, {2, 3, at(800)}}; !slices.Equal(s.scaled(time.Second), want) {
		t.Errorf("scaled: got %v, want %v", s.scaled(time.Second), want)
	}
	if s := newScript(packer.Recording{Reads: reads}); len(s.reads) != 4 {
		t.Errorf("without a time of `booted`: %d reads, want all", len(s.reads))
	}
	all := newScript(packer.Recording{Reads: []trace.Read{{Start: 1, Blocks: 1}}})
	if got := all.scaled(time.Second); len(got) != 1 || got[0].think != 0 {
		t.Errorf("a boot that took no time: %v", got)
	}
}

// memory is a root in memory.
type memory []byte

func (m memory) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > int64(len(m)) {
		return 0, io.ErrUnexpectedEOF
	}
	return copy(p, m[off:]), nil
}

func TestReplayComparesEveryByte(t *testing.T) {
	root := make(memory, 8*chunk.BlockSize)
	for i := range root {
		root[i] = byte(i * 7)
	}
	m := &material{
		boot: newScript(packer.Recording{Reads: []trace.Read{{Start: 4, Blocks: 2}, {Start: 0, Blocks: 1, At: at(1)}}}),
	}
	for _, r := range m.boot.reads {
		m.want = append(m.want, bytes.Clone(root[int(r.Start)*chunk.BlockSize:][:int(r.Blocks)*chunk.BlockSize]))
	}
	waits, err := m.replay(t.Context(), root, m.boot.scaled(0), bench.Pause)
	if err != nil || len(waits) != 2 {
		t.Fatalf("got %v, %v", waits, err)
	}
	root[6*chunk.BlockSize-1]++
	if _, err := m.replay(t.Context(), root, m.boot.scaled(0), bench.Pause); err == nil ||
		!strings.Contains(err.Error(), "wrong bytes") {
		t.Errorf("the last byte of a read is another: got %v", err)
	}
	if _, err := m.replay(t.Context(), root[:5*chunk.BlockSize], m.boot.scaled(0), bench.Pause); !errors.Is(
		err,
		io.ErrUnexpectedEOF,
	) {
		t.Errorf("a root that ends: got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := m.replay(ctx, root, m.boot.scaled(time.Hour), bench.Pause); err == nil {
		t.Error("a boot went on after its end")
	}
	if got := stall([]time.Duration{at(1), at(5), at(3)}, []burst{{0, 2, 0}, {2, 3, 0}}); got != at(8) {
		t.Errorf("stall: got %s, want 8ms", got)
	}
}

// storms are runs with round figures: W is 1 MB, a boot reads 4 MB.
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

// A storm ratio whose one node had a link of another rate is marked, and one of the same rate is not.
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

// What was discarded has no figures in the table, unless they are asked for, and then a mark.
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

// Of an even number of runs the slower of the two in the middle counts.
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
