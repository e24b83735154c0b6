package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/build"
	"pando/internal/chunk"
	"pando/internal/testkit"
	"pando/internal/trace"
)

func TestStormFlags(t *testing.T) {
	s, err := newStorm([]string{"--nodes", "1,40", "--rate", "4mbit", "--server-rate", "1gbit", "--systems", "pack", "--reads", "a,b"}, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.nodes, []int{1, 40}) || !slices.Equal(s.systems, []string{"pack"}) || !slices.Equal(s.traces, []string{"a", "b"}) {
		t.Errorf("got nodes %v, systems %v, traces %v", s.nodes, s.systems, s.traces)
	}
	want := []job{{"pack", 1, 4 * testkit.Mbit, testkit.Gbit, 0}, {"pack", 40, 4 * testkit.Mbit, testkit.Gbit, 0}}
	if got := s.plan(&material{bootSet: 1e6}); !slices.Equal(got, want) {
		t.Errorf("plan: got %v, want %v", got, want)
	}
	for _, args := range [][]string{{"--nodes", "0"}, {"--nodes", "1,x"}, {"--rate", "fast"}, {"--systems", "carrier-pigeon"}, {"--runs", "0"},
		{"--think", "-1"}, {"rest"}} {
		var told bytes.Buffer
		if _, err := newStorm(args, io.Discard, &told); err == nil || told.Len() == 0 {
			t.Errorf("%v: got %v and told %q", args, err, told.String())
		}
	}
}

// All systems are measured before the next number of nodes, and again in the next round.
func TestStormPlanTakesTurns(t *testing.T) {
	s := &storm{nodes: []int{1, 10}, systems: []string{"chunks", "pack"}, runs: 2}
	var got []string
	for _, j := range s.plan(&material{bootSet: 10e6}) {
		got = append(got, j.System)
		if j.Node <= 0 || j.Server != j.Node {
			t.Errorf("rates %s and %s", j.Node, j.Server)
		}
	}
	if want := strings.Fields(strings.Repeat("chunks pack ", 4)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRoundRate(t *testing.T) {
	for r, want := range map[float64]testkit.Rate{1: 100 * testkit.Kbit, 4.9e6: 2 * testkit.Mbit, 5e6: 5 * testkit.Mbit, 99e6: 50 * testkit.Mbit,
		1e12: 100 * testkit.Mbit} {
		if got := roundRate(r, 100*testkit.Mbit); got != want {
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
	reads := []trace.Read{{Start: 5, Blocks: 1, At: at(2)}, {Start: 9, Blocks: 2, At: at(2)}, {Start: 1, Blocks: 1, At: at(10)}, {Start: 7, Blocks: 1, At: at(99)}}
	s := newScript(build.Recording{Reads: reads, Booted: at(50)})
	if len(s.reads) != 3 || s.length != at(10) {
		t.Fatalf("got %d reads in %s", len(s.reads), s.length)
	}
	if want := []burst{{0, 2, at(2)}, {2, 3, at(8)}}; !slices.Equal(s.bursts, want) {
		t.Errorf("got %v, want %v", s.bursts, want)
	}
	if want := []burst{{0, 2, at(200)}, {2, 3, at(800)}}; !slices.Equal(s.scaled(time.Second), want) {
		t.Errorf("scaled: got %v, want %v", s.scaled(time.Second), want)
	}
	if s := newScript(build.Recording{Reads: reads}); len(s.reads) != 4 {
		t.Errorf("without a time of `booted`: %d reads, want all", len(s.reads))
	}
	all := newScript(build.Recording{Reads: []trace.Read{{Start: 1, Blocks: 1}}})
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
	m := &material{boot: newScript(build.Recording{Reads: []trace.Read{{Start: 4, Blocks: 2}, {Start: 0, Blocks: 1, At: at(1)}}})}
	for _, r := range m.boot.reads {
		m.want = append(m.want, bytes.Clone(root[int(r.Start)*chunk.BlockSize:][:int(r.Blocks)*chunk.BlockSize]))
	}
	waits, err := m.replay(t.Context(), root, m.boot.scaled(0))
	if err != nil || len(waits) != 2 {
		t.Fatalf("got %v, %v", waits, err)
	}
	root[6*chunk.BlockSize-1]++
	if _, err := m.replay(t.Context(), root, m.boot.scaled(0)); err == nil || !strings.Contains(err.Error(), "wrong bytes") {
		t.Errorf("the last byte of a read is another: got %v", err)
	}
	if _, err := m.replay(t.Context(), root[:5*chunk.BlockSize], m.boot.scaled(0)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a root that ends: got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := m.replay(ctx, root, m.boot.scaled(time.Hour)); err == nil {
		t.Error("a boot went on after its end")
	}
	if got := stall([]time.Duration{at(1), at(5), at(3)}, []burst{{0, 2, 0}, {2, 3, 0}}); got != at(8) {
		t.Errorf("stall: got %s, want 8ms", got)
	}
}

func TestParseTicks(t *testing.T) {
	a, err := parseTicks([]byte("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := parseTicks([]byte("cpu  160 0 60 810 60 0 5 5 0 0\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := a.share(b); got != 0.8 {
		t.Errorf("80 of 100 ticks were busy: got %g", got)
	}
	for _, text := range []string{"", "cpu 1 2 3", "cpu a b c d e f g h", "intr 1 2 3 4 5 6 7 8 9"} {
		if _, err := parseTicks([]byte(text)); err == nil {
			t.Errorf("%q was understood", text)
		}
	}
}

func TestParseCPU(t *testing.T) {
	got, err := parseCPU("12 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0")
	if err != nil || got != 3 {
		t.Errorf("got %g s, %v, want 3", got, err)
	}
	if _, err := parseCPU("12 (a) S 1"); err == nil {
		t.Error("half a line was understood")
	}
}

// storms are runs with round figures: W is 1 MB, a boot reads 4 MB.
func storms() *report {
	one := stormRun{System: "pack", Nodes: 1, NodeRate: 1e6, Unit: 10, BootSet: 1e6, Read: 4e6, ServerSent: 1.1e6, Busy: 0.3,
		Each: []nodeRun{{Booted: 20, Taken: taken{Received: map[string]int64{"server": 1e6}, CPU: 0.5, Memory: 20e6}}}}
	two := one
	two.Nodes, two.Unit, two.ServerSent = 2, 5, 1.5e6
	two.Each = []nodeRun{{Booted: 11, Taken: taken{Received: map[string]int64{"server": 1e6}}}, {Booted: 12, Taken: taken{Received: map[string]int64{"server": 2e5, "peer": 8e5}}}}
	busy := two
	busy.Busy, busy.Discarded, busy.System = 0.9, true, "chunks"
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
		"t_first": {two.First, 11}, "t_p50": {two.Median, 11.5}, "t_last": {two.Last, 12}, "amplification": {two.amplification(), 1.5},
		"wire": {two.wire(), 0.25}, "peers": {two.peers(), 0.4},
	} {
		if math.Abs(x[0]-x[1]) > 1e-9 {
			t.Errorf("%s: got %g, want %g", name, x[0], x[1])
		}
	}
	// 12 s are 2.4 units of 5 s, 20 s were 2 units of 10 s.
	if got := r.ratio(two, false); got != "1.20" {
		t.Errorf("storm ratio: got %s, want 1.20", got)
	}
	if err := (&stormRun{}).finish(); err == nil {
		t.Error("a run without nodes has figures")
	}
	if !math.IsNaN(median(nil)) || median([]float64{1, 2, 4}) != 2 {
		t.Error("median")
	}
}

// What was discarded has no figures in the table, unless they are asked for, and then a mark.
func TestStormTable(t *testing.T) {
	r := storms()
	text := r.table(false)
	if !strings.Contains(text, "2.40") || !strings.Contains(text, "discarded: the machine was 90 % busy") || strings.Contains(text, "*") {
		t.Errorf("got\n%s", text)
	}
	if text := r.table(true); strings.Contains(text, "discarded") || !strings.Contains(text, "chunks*") {
		t.Errorf("with --busy: got\n%s", text)
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

// The diagram is XML, has a point for each run that counts, and doubles of nodes are equal distances.
func TestStormPlot(t *testing.T) {
	r := storms()
	for busy, want := range map[bool]int{false: 2, true: 3} {
		svg := r.svg(plots["time"], busy)
		if got := strings.Count(svg, "<circle"); got != want {
			t.Errorf("busy %v: %d points, want %d", busy, got, want)
		}
		if err := xml.Unmarshal([]byte(svg), new(struct{ XMLName xml.Name })); err != nil {
			t.Error(err)
		}
	}
	if svg := (&report{}).svg(plots["server"], true); svg != "" {
		t.Errorf("a report without runs: %s", svg)
	}
	a := newAxis([]float64{1, 40}, 0, 100)
	if a.at(1) != 0 || a.at(100) != 100 || a.at(10) != 50 || len(a.ticks()) != 3 {
		t.Errorf("axis of 1 to 40: 1 at %g, 10 at %g, 100 at %g, %v", a.at(1), a.at(10), a.at(100), a.ticks())
	}
	if a := newAxis([]float64{1}, 0, 100); a.at(1) != 0 || a.at(10) != 100 {
		t.Errorf("axis of one value: %+v", a)
	}
}
