package main

import (
	"fmt"
	"slices"
	"strings"
)

// bestName is all of Pando that there is.
func bestName() string {
	all := own()
	return all[len(all)-1].name
}

// targets are what Pando aims at, each with what was measured.
func (r *report) targets(alone *aloneResult) (out []row) {
	best := bestName()
	add := func(what, aim string, limit, got float64, ok bool) {
		if !ok {
			out = append(out, row{what, aim, "not measured", ""})
			return
		}
		verdict := "met"
		if got > limit {
			verdict = fmt.Sprintf("**missed by %.0f %%**", (got/limit-1)*100)
		}
		out = append(out, row{what, aim, fmt.Sprintf("%.2f", got), verdict})
	}
	for _, x := range []struct {
		nodes int
		limit float64
	}{{40, 1.25}, {200, 1.35}} {
		m, ok := r.typical(kind{x.nodes, best}, false)
		add(fmt.Sprintf("the last of %d nodes has booted, server's link as fast as a node's, in W/(eta B)", x.nodes), fmt.Sprintf("≤ %.2f", x.limit), x.limit, m.units(), ok)
	}
	if most, ok := r.largest(best); ok {
		w := float64(r.BootSet)
		objects := most.total("server") / w
		add(fmt.Sprintf("objects that left the server for %d nodes, in W", most.Nodes), "≤ 1.30", 1.3, objects, true)
		control := (float64(most.ServerSent)*eta - most.total("server")) / float64(most.Nodes) / 1000
		add("all else that left it, for each node, in KB (manifest, index pages and answers among it)", "≤ 20", 20, control, true)
	}
	one, ok := r.typical(kind{1, best}, false)
	add("bytes on the wire of one boot, to bytes that it reads", "≤ 0.35", 0.35, one.wire(), ok)
	for _, x := range aloneTargets {
		pairs := 0
		if alone != nil {
			pairs = min(len(alone.Seconds["pando"]), len(alone.Seconds[x.way]))
		}
		got := 0.0
		if pairs > 0 {
			got = paired(alone.Seconds["pando"], alone.Seconds[x.way])
		}
		add(fmt.Sprintf("one machine alone on a fast link, from /init to booted, to %s (median of %d pairs)", x.what, pairs), fmt.Sprintf("≤ %.2f", x.limit),
			x.limit, got, pairs > 0)
	}
	add("processor time of the block daemon for one boot, in s", "≤ 0.50", 0.5, one.mean(func(n nodeRun) float64 { return n.Taken.CPU }), ok)
	kept := float64(min(r.BootSet, 24<<20))
	add("memory of the block daemon beside the boot pack that it keeps, in MB", "≤ 24", 24,
		(one.most(func(n nodeRun) float64 { return float64(n.Taken.Memory) })-kept)/1e6, ok)
	return out
}

// aloneTargets are of `make bench-alone`.
var aloneTargets = []struct {
	way, what string
	limit     float64
}{{"nbd-squashfs", "squashfs-zstd over NBD", 1}, {"disk", "the same file system on a local disk", 1.05}}

// largest is the storm of a system with the most nodes.
func (r *report) largest(system string) (m stormRun, ok bool) {
	for _, k := range r.kinds() {
		if x, good := r.typical(k, false); good && k.system == system && k.nodes > 1 {
			m, ok = x, true
		}
	}
	return m, ok
}

// total is what all nodes received from a source.
func (r stormRun) total(source string) float64 {
	sum := int64(0)
	for _, n := range r.Each {
		sum += n.Taken.Received[source]
	}
	return float64(sum)
}

// losses are the figures in which a rival is better than all of Pando, at the same number of nodes.
func (r *report) losses() string {
	var out strings.Builder
	best := bestName()
	for _, k := range r.kinds() {
		ours, ok := r.typical(kind{k.nodes, best}, false)
		theirs, good := r.typical(k, false)
		if !ok || !good || slices.Contains(names(own()), k.system) {
			continue
		}
		for _, f := range figures {
			a, b := f.of(ours), f.of(theirs)
			if b > 0 && a > b {
				fmt.Fprintf(&out, "- %s, N=%d: %s is "+f.format+", with `%s` "+f.format+"\n", best, k.nodes, f.name, a, k.system, b)
			}
		}
	}
	if out.Len() == 0 {
		return "In no figure that was measured.\n"
	}
	return out.String()
}

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
