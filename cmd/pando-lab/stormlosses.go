package main

import (
	"fmt"
	"slices"
	"strings"

	"pando/internal/testkit"
)

// lossText goes before the lines.
const lossText = "All of Pando, `peers`, beside each rival with as many nodes. Pando's figure is first, then the " +
	"rival's. Times of storms are in W/(eta B), " +
	"as in the table, and waits in thousandths of that, because links were not all as fast; those of processors " +
	"are in seconds.\n\n"

// losses are the figures in which a rival is better than all of Pando, at the same number of nodes, or with
// emulated machines: a line for each rival.
func (r *report) losses(alone ...*aloneResult) string {
	var out strings.Builder
	best, compared := bestName(), false
	for _, k := range r.kinds() {
		ours, ok := r.like(kind{k.nodes, best, k.rate, k.server}, false)
		theirs, good := r.typical(k, false)
		if !ok || !good || slices.Contains(names(own()), k.system) {
			continue
		}
		compared = true
		if lost := lostIn(ours, theirs); len(lost) > 0 {
			fmt.Fprintf(
				&out,
				"- `%s`, N=%d, %s: %s\n",
				k.system,
				k.nodes,
				linksOf(ours, theirs),
				strings.Join(lost, ", "),
			)
		}
	}
	out.WriteString(r.guestLosses())
	for _, a := range alone {
		out.WriteString(a.losses())
	}
	switch {
	case !compared && out.Len() == 0:
		return "Nothing was compared: no run of `" + best + "` with as many nodes as one of a rival counts.\n"
	case out.Len() == 0:
		return "In no figure that was measured.\n"
	}
	return lossText + out.String()
}

// linksOf says on which links two runs were made.
func linksOf(ours, theirs stormRun) string {
	if ours.NodeRate == theirs.NodeRate {
		return "links of " + ours.links()
	}
	return fmt.Sprintf("links of %s and %s", ours.links(), theirs.links())
}

// lostIn are the figures in which a rival's run is better.
func lostIn(ours, theirs stormRun) (out []string) {
	for _, f := range figures {
		if a, b := f.of(ours), f.of(theirs); a > b && (b > 0 || f.zero) {
			out = append(out, fmt.Sprintf("%s "+f.format+" to "+f.format, f.name, a, b))
		}
	}
	return out
}

// guestLosses are those of emulated machines, by the newest run of each rival on links of each rate.
func (r *report) guestLosses() string {
	var out strings.Builder
	type like struct {
		system string
		guests int
		rate   int64
	}
	newest := map[like]int{}
	for i, g := range r.Guests {
		newest[like{g.System, g.Guests, g.Rate}] = i
	}
	for i, g := range r.Guests {
		p, ok := r.beside(g)
		if g.System == pandoWay || !ok || len(g.Failed) > 0 || newest[like{g.System, g.Guests, g.Rate}] != i {
			continue
		}
		var lost []string
		if a, b := last(p.SinceInit), last(g.SinceInit); a > b {
			lost = append(lost, fmt.Sprintf("the time of the last one since /init %.1f s to %.1f s", a, b))
		}
		if a, b := p.rootSent(), g.rootSent(); a > b {
			lost = append(lost, fmt.Sprintf("what the server sent of the root %.1f MB to %.1f MB", mega(a), mega(b)))
		}
		if len(lost) > 0 {
			fmt.Fprintf(
				&out,
				"- `%s`, %d emulated machines, links of %s: %s\n",
				g.System,
				g.Guests,
				testkit.Rate(g.Rate),
				strings.Join(lost, ", "),
			)
		}
	}
	return out.String()
}

// losses are the ways in which a machine by itself boots in less time.
func (r *aloneResult) losses() string {
	var out strings.Builder
	ours := r.Seconds[pandoWay]
	for _, w := range ways() {
		if theirs := r.Seconds[w.name]; len(ours) > 0 && len(theirs) > 0 && paired(ours, theirs) > 1 {
			fmt.Fprintf(
				&out,
				"- `%s`, one machine alone, by the clock of %s: the time since /init %.2f s to %.2f s\n",
				w.name,
				clockNames[r.Clock],
				middle(ours),
				middle(theirs),
			)
		}
	}
	return out.String()
}

// clockNames are for people.
var clockNames = map[string]string{byInstructions: "instructions", byWall: "the wall", byReplay: "these processors"}

// inMemory tells whether a system has the whole image in memory, beside its client.
func inMemory(system string) bool { return system == "whole" || system == "torrent" }

// figure is something in which runs are compared. The least is best.
type figure struct {
	name, format string
	of           func(stormRun) float64
	zero         bool // 0 is a figure; else it is one that was not measured
}

var figures = []figure{
	{"the time of the last node", "%.2f", stormRun.units, false},
	{"what the server sent, in W,", "%.2f", stormRun.amplification, false},
	{"the time that the boot stood still", "%.2f", func(r stormRun) float64 { return r.stalled() / r.Unit }, true},
	{
		"the wait of 99 in 100 reads, in thousandths,",
		"%.2f",
		func(r stormRun) float64 { return 1000 * r.most(func(n nodeRun) float64 { return n.Wait99 }) / r.Unit },
		true,
	},
	{"the bytes on a node's link, to those read,", "%.2f", stormRun.wire, false},
	{
		"the client's processor time",
		"%.2f s",
		func(r stormRun) float64 { return r.mean(func(n nodeRun) float64 { return n.Taken.CPU }) },
		false,
	},
	{"the client's memory", "%.0f MB", func(r stormRun) float64 {
		if inMemory(r.System) {
			return 0 // its image lies there too
		}
		return r.most(func(n nodeRun) float64 { return float64(n.Taken.Memory) }) / 1e6
	}, false},
	{"the server's processor time", "%.2f s", func(r stormRun) float64 { return r.ServerCPU }, true},
	{"the server's memory", "%.0f MB", func(r stormRun) float64 { return mega(r.ServerMemory) }, false},
}
