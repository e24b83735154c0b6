package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// What a rival was not measured with is a line through what it was: against N, or its logarithm where nodes share.
func TestModel(t *testing.T) {
	r := &report{}
	add := func(system string, n int, units, sent float64) {
		r.Runs = append(
			r.Runs,
			stormRun{System: system, Nodes: n, Unit: 2, Last: 2 * units, BootSet: 1e6, ServerSent: int64(sent * 1e6)},
		)
	}
	add("nbd", 1, 3, 3)
	add("nbd", 10, 30, 30)
	add("torrent", 1, 10, 10)
	add("torrent", 8, 16, 13)
	add("ranges", 10, 1, 1)
	add("prefetch", 64, 64, 64)
	var got []string
	for _, e := range r.model() {
		got = append(got, fmt.Sprintf("%s %d %.1f %.1f %.1f", e.System, e.Nodes, e.Units, e.Server, e.Ratio))
	}
	if want := []string{"nbd 64 192.0 192.0 64.0", "torrent 10 16.6 13.3 1.7", "torrent 64 22.0 16.0 " +
		"2.2"}; !slices.Equal(
		got,
		want,
	) {
		t.Errorf("got %q, want %q", got, want)
	}
	r.Modelled = r.model()
	if text := r.table(false); strings.Count(text, " modelled ") != 3 ||
		!strings.Contains(text, "modelled: a straight line") {
		t.Errorf("the table has to mark them: got\n%s", text)
	}
	if svg := r.svg(plots["time"], false); strings.Count(svg, `fill="white" stroke`) != 3 ||
		strings.Count(svg, "dasharray") != 2 {
		t.Errorf("the diagram has to mark them: got\n%s", svg)
	}
}

// A line through what was measured can come below the time that the server's link takes for what it sends then:
// that is the least.
func TestModelIsNoFasterThanTheLink(t *testing.T) {
	few := stormRun{
		System:     "nbd",
		Nodes:      1,
		Unit:       1,
		Last:       4,
		BootSet:    1e6,
		ServerSent: 3.3e6,
		NodeRate:   2e6,
		ServerRate: 2e6,
	}
	many := few
	many.Nodes, many.Last, many.ServerSent = 10, 31, 33e6
	e := system{name: "nbd"}.estimate(few, many, 100)
	if want := 330 * 0.94 * 1538 / 1514; math.Abs(e.Server-330) > 1e-9 || math.Abs(e.Units-want) > 1e-9 ||
		math.Abs(e.Ratio-want/4) > 1e-9 {
		t.Errorf("got %+v, want %g W/(eta B): the line says 301", e, want)
	}
	many.ServerRate = 20e6
	if e := (system{name: "nbd"}).estimate(few, many, 100); math.Abs(e.Units-301) > 1e-9 {
		t.Errorf("the server's link is ten times as fast: got %+v, want the line", e)
	}
}
