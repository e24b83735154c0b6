package packs

import (
	"fmt"
	"testing"
	"time"

	"pando/internal/build/packer"
	"pando/internal/image/bootpack"
	"pando/internal/trace"
)

// seenBy returns a trace of some blocks, received that number of minutes after noon.
func seenBy(class string, minute int, extents ...bootpack.Extent) measured {
	m := measured{
		Trace: Trace{Class: class, Received: noon.Add(time.Duration(minute) * time.Minute)},
	}
	for _, e := range extents {
		m.rec.Reads = append(m.rec.Reads, trace.Read{Start: e.Start, Blocks: e.Blocks})
	}
	return m
}

func TestPlanPacks(t *testing.T) {
	span := func(start, blocks uint32) bootpack.Extent { return bootpack.Extent{Start: start, Blocks: blocks} }
	// made returns a pack of some extents, made five minutes past noon.
	made := func(class string, boots int, extents ...bootpack.Extent) map[string]packNow {
		r := bootpack.Record{Class: class, Boots: boots, Made: noon.Add(5 * time.Minute)}
		o := packer.Order{Extents: extents}
		o.Booted = o.Blocks()
		return map[string]packNow{class: {Record: r, order: o}}
	}
	// late sets how many blocks of a pack are for the time until booted.
	late := func(has map[string]packNow, booted int64) map[string]packNow {
		p := has[""]
		p.order.Booted = booted
		return map[string]packNow{"": p}
	}
	both := func(a, b map[string]packNow) map[string]packNow {
		for k, v := range b {
			a[k] = v
		}
		return a
	}
	same := []measured{seenBy("", 9, span(0, 100)), seenBy("", 8, span(0, 100)), seenBy("", 1, span(0, 100))}
	moved := []measured{
		seenBy("", 9, span(200, 100)),
		seenBy("", 8, span(200, 100)),
		seenBy("", 7, span(200, 100)),
		seenBy("", 1, span(0, 100)),
	}
	unlike := []measured{
		seenBy("", 9, span(0, 50), span(900, 50)),
		seenBy("", 8, span(0, 50), span(800, 50)),
		seenBy("", 7, span(0, 50), span(700, 50)),
	}
	classes := []measured{
		seenBy("a", 9, span(0, 100)),
		seenBy("a", 8, span(0, 100)),
		seenBy("b", 7, span(50, 100)),
		seenBy("b", 6, span(50, 100)),
	}
	alike := []measured{
		seenBy("a", 9, span(0, 100)),
		seenBy("a", 8, span(0, 100)),
		seenBy("b", 7, span(2, 100)),
		seenBy("b", 6, span(2, 100)),
	}
	for name, c := range map[string]struct {
		traces []measured
		has    map[string]packNow
		want   string // classes and blocks of the jobs
	}{
		"no boot":             {nil, nil, "[]"},
		"one boot":            {same[:1], nil, "[]"},
		"two boots":           {same[:2], nil, `["" 100]`},
		"carried over":        {same[:2], made("", 0, span(0, 100)), `["" 100]`},
		"fits":                {same, made("", 2, span(0, 100)), "[]"},
		"too small":           {same, made("", 2, span(0, 80)), `["" 100]`},
		"a bit too small":     {same, made("", 3, span(0, 95)), "[]"},
		"too large":           {same, made("", 2, span(0, 140)), `["" 100]`},
		"a bit too large":     {same, made("", 3, span(0, 120)), "[]"},
		"of two boots":        {same, made("", 2, span(0, 120)), `["" 100]`},
		"of two that agreed":  {same, made("", 2, span(0, 101)), "[]"},
		"a late part":         {same, late(made("", 3, span(0, 400)), 100), "[]"},
		"not all of it late":  {same, late(made("", 3, span(0, 400)), 130), `["" 100]`},
		"one boot is not two": {[]measured{moved[0], same[2]}, made("", 2, span(0, 100)), "[]"},
		"moved":               {moved, made("", 2, span(0, 100)), `["" 100]`},
		"no pack fits":        {unlike, made("", 2, span(0, 50)), "[]"},
		"first for all":       {classes, nil, `["" 150]`},
		"then for the class":  {classes, made("", 4, span(0, 150)), `["a" 100 "b" 100]`},
		"not for both":        {classes, both(made("", 4, span(0, 150)), made("a", 2, span(0, 100))), `["b" 100]`},
		"alike":               {alike, made("", 4, span(0, 102)), "[]"},
		"one class":           {classes[:2], made("", 2, span(0, 100)), "[]"},
		"class of one":        {classes[:3], made("", 2, span(0, 100)), "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []any
			for _, j := range planPacks(c.traces, c.has) {
				got = append(got, j.class, j.order.Blocks())
				if j.why == "" || j.boots < mergeBoots {
					t.Errorf("job %+v", j)
				}
			}
			if text := fmt.Sprintf("%#v", got); fmt.Sprint(quoted(got)) != c.want {
				t.Errorf("jobs %s, want %s", text, c.want)
			}
		})
	}
}

// quoted makes strings visible.
func quoted(all []any) []any {
	out := make([]any, len(all))
	for i, v := range all {
		if out[i] = v; fmt.Sprintf("%T", v) == "string" {
			out[i] = fmt.Sprintf("%q", v)
		}
	}
	return out
}

// A pack made from the traces by which it is judged is never made again.
func TestPlanPacksRests(t *testing.T) {
	traces := []measured{
		seenBy(
			"",
			9,
			bootpack.Extent{Start: 0, Blocks: 50},
			bootpack.Extent{Start: 300, Blocks: 70},
		), seenBy("", 8, bootpack.Extent{Start: 0, Blocks: 50}),
		seenBy("", 7, bootpack.Extent{Start: 20, Blocks: 50}), seenBy("", 6, bootpack.Extent{Start: 90, Blocks: 50}),
	}
	jobs := planPacks(traces, nil)
	if len(jobs) != 1 {
		t.Fatalf("jobs %+v", jobs)
	}
	has := map[string]packNow{"": {Record: bootpack.Record{Boots: 4}, order: jobs[0].order}}
	if jobs := planPacks(traces, has); len(jobs) != 0 {
		t.Errorf("made again: %+v", jobs)
	}
}

func TestTooMany(t *testing.T) {
	kept := func(node, class string, minute int) Trace {
		return Trace{Node: node, Class: class, Received: noon.Add(time.Duration(-minute) * time.Minute)}
	}
	for name, c := range map[string]struct {
		in   []Trace
		want string // nodes and minutes of those to forget
	}{
		"few": {[]Trace{kept("a", "", 0), kept("a", "", 1), kept("a", "", 2), kept("a", "", 3)}, ""},
		"the oldest": {[]Trace{kept("a", "", 0), kept("b", "", 1), kept("c", "", 2), kept("d", "", 3),
			kept("e", "", 4)}, "e4"},
		"of one node": {[]Trace{kept("a", "", 0), kept("a", "", 1), kept("a", "", 2), kept("a", "", 3),
			kept("b", "", 4)}, "a3"},
		"of each class": {[]Trace{kept("a", "x", 0), kept("a", "x", 1), kept("a", "y", 2), kept("a", "y", 3),
			kept("b", "z", 4)}, ""},
		"a chatty node": {[]Trace{kept("a", "", 0), kept("b", "", 1), kept("a", "", 2), kept("c", "", 3),
			kept("d", "", 4)}, "a2"},
		"of one class up": {[]Trace{kept("a", "x", 0), kept("b", "x", 1), kept("c", "x", 2), kept("d", "x", 3),
			kept("e", "x", 4), kept("f", "y", 5)}, "e4"},
	} {
		got := ""
		for _, k := range tooMany(c.in) {
			got += fmt.Sprintf("%s%.0f", k.Node, noon.Sub(k.Received).Minutes())
		}
		if got != c.want {
			t.Errorf("%s: forgets %q, want %q", name, got, c.want)
		}
	}
	var many []Trace
	for i := range 10 * tracesPerVersion {
		many = append(many, kept(fmt.Sprint("n", i), fmt.Sprint("class", i), i))
	}
	if got := tooMany(many); len(got) != len(many)-tracesPerVersion || got[len(got)-1].Node == "n0" {
		t.Errorf("forgets %d of %d", len(got), len(many))
	}
}

func TestMomentsOf(t *testing.T) {
	at := func(stage trace.Stage, kind trace.Kind, second int) trace.Event {
		return trace.Event{Stage: stage, Kind: kind, Offset: time.Duration(second) * time.Second}
	}
	events := []trace.Event{
		at(
			"early",
			trace.End,
			1,
		), at(trace.Device, trace.Begin, 2), at(trace.Device, trace.End, 3), at(trace.Root, trace.Begin, 3),
		at(
			trace.Root,
			trace.Fail,
			3,
		), at(trace.Root, trace.End, 4), at(trace.Booted, trace.End, 30), at("desktop", trace.End, 20),
		at(trace.Shutdown, trace.End, 99),
	}
	got := momentsOf(events, 0)
	if want := fmt.Sprint([]moment{{trace.Root, time.Second}, {"desktop", 17 * time.Second},
		{trace.Booted, 27 * time.Second}}); fmt.Sprint(
		got,
	) != want {
		t.Errorf("moments %v, want %s", got, want)
	}
	if got := momentsOf([]trace.Event{at(trace.Booted, trace.End, 30)}, 0); got != nil {
		t.Errorf("without a device: %v", got)
	}
	// Reads count from before the end of the stage Device, which may have waited for a disk, and from no later moment,
	// whatever a node tells.
	if early := momentsOf(events, 2500*time.Millisecond); early[len(early)-1].At != 27500*time.Millisecond {
		t.Errorf("booted %s after the first read could come, not 27.5 s", early[len(early)-1].At)
	}
	for _, odd := range []time.Duration{-time.Hour, time.Hour} {
		if m := momentsOf(events, odd); fmt.Sprint(m) != fmt.Sprint(got) {
			t.Errorf("a node that says it began at %s: %v", odd, m)
		}
	}
	if r, err := (Trace{Moments: got, Reads: trace.EncodeReads(nil)}).Recording(); err != nil ||
		r.Booted != 27*time.Second {
		t.Errorf("recording %+v, %v", r, err)
	}
}

// noon is the time from which the tests' traces are received.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
