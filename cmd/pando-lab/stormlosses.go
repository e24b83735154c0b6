package main

import (
	"fmt"
	"slices"
	"strings"
)

// losses are the figures in which a rival is better than all of Pando, at the same number of nodes, or with one machine alone.
func (r *report) losses(alone ...*aloneResult) string {
	var out strings.Builder
	best, compared := bestName(), false
	for _, k := range r.kinds() {
		ours, ok := r.typical(kind{k.nodes, best}, false)
		theirs, good := r.typical(k, false)
		if !ok || !good || slices.Contains(names(own()), k.system) {
			continue
		}
		compared = true
		for _, f := range figures {
			a, b := f.of(ours), f.of(theirs)
			if b > 0 && a > b {
				fmt.Fprintf(&out, "- %s, N=%d: %s is "+f.format+", with `%s` "+f.format+"\n", best, k.nodes, f.name, a, k.system, b)
			}
		}
	}
	for _, a := range alone {
		out.WriteString(a.losses())
	}
	switch {
	case !compared && out.Len() == 0:
		return "Nothing was compared: no run of `" + best + "` with as many nodes as one of a rival counts.\n"
	case out.Len() == 0:
		return "In no figure that was measured.\n"
	}
	return out.String()
}

// losses are the ways in which a machine by itself boots in less time.
func (r *aloneResult) losses() string {
	var out strings.Builder
	ours := r.Seconds[pandoWay]
	for _, w := range ways() {
		if theirs := r.Seconds[w.name]; len(ours) > 0 && len(theirs) > 0 && paired(ours, theirs) > 1 {
			fmt.Fprintf(&out, "- one machine alone, by the clock of %s: %.2f s, with `%s` %.2f s\n", clockNames[r.Clock], middle(ours), w.name, middle(theirs))
		}
	}
	return out.String()
}

// clockNames are for people.
var clockNames = map[string]string{byInstructions: "instructions", byWall: "the wall"}

// figures are what is compared.
var figures = []struct {
	name, format string
	of           func(stormRun) float64
}{
	{"the time of the last node, in W/(eta B),", "%.2f", stormRun.units},
	{"what the server sent, in W,", "%.2f", stormRun.amplification},
	{"the client's processor time", "%.2f s", func(r stormRun) float64 { return r.mean(func(n nodeRun) float64 { return n.Taken.CPU }) }},
	{"the client's memory", "%.0f MB", func(r stormRun) float64 {
		return r.most(func(n nodeRun) float64 { return float64(n.Taken.Memory) }) / 1e6
	}},
}
