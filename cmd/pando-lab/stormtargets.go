package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// bestName is all of Pando that there is.
func bestName() string {
	all := own()
	return all[len(all)-1].name
}

// target is something that Pando aims at, with what was measured.
type target struct {
	what  string
	limit float64 // 0: there is no aim, the figure stands beside others
	got   float64
	ok    bool // it was measured
}

// row is the target's line in the table of targets.
func (t target) row() row {
	aim, got, verdict := "", "not measured", ""
	if t.limit > 0 {
		aim = fmt.Sprintf("≤ %.2f", t.limit)
	}
	if t.ok {
		got = fmt.Sprintf("%.2f", t.got)
	}
	switch {
	case !t.ok || t.limit == 0:
	case t.got > t.limit:
		verdict = fmt.Sprintf("**missed by %.0f %%**", (t.got/t.limit-1)*100)
	default:
		verdict = "met"
	}
	return row{t.what, aim, got, verdict}
}

var targetHeads = row{"what", "aim", "measured", ""}

func targetRows(of ...target) (out []row) {
	out = append(out, targetHeads)
	for _, t := range of {
		out = append(out, t.row())
	}
	return out
}

// targets are those of one image.
func (r *report) targets(alone ...*aloneResult) []row {
	var all []target
	all = append(all, r.timeTargets()...)
	all = append(all, r.serverTargets()...)
	all = append(all, r.nodeTargets(alone)...)
	return append(targetRows(all...), r.faultTargets()...)
}

// timeTargets are about the time of a storm.
func (r *report) timeTargets() (out []target) {
	for _, x := range []struct {
		nodes int
		limit float64
	}{{40, 1.25}, {200, 1.35}} {
		m, ok := r.like(kind{x.nodes, bestName(), slowest, 0}, false)
		set := target{
			fmt.Sprintf(
				"the last of %d nodes has its boot set, server's link as fast as a node's, in W/(eta B)",
				x.nodes,
			),
			x.limit,
			m.Complete / m.Unit,
			ok,
		}
		if ok && m.Complete == 0 { // some node never had all; who has booted has what it read
			set.what, set.got = set.what+": not later than", m.units()
		}
		out = append(
			out,
			set,
			target{
				fmt.Sprintf("the last of %d nodes has booted, with its pauses between reads, in W/(eta B)", x.nodes),
				0,
				m.units(),
				ok,
			},
		)
	}
	return out
}

// serverTargets are about what the server sends in the largest storm.
func (r *report) serverTargets() []target {
	most, ok := r.largest(bestName())
	if !ok {
		return []target{{what: "objects that left the server in a storm, in W", limit: 1.3}, r.controlTarget()}
	}
	n, w := float64(most.Nodes), float64(r.BootSet)
	objects := most.total("server")
	messages := most.mean(func(n nodeRun) float64 { return float64(n.Taken.Messages) })
	out := []target{
		{fmt.Sprintf("objects that left the server for %d nodes, in W", most.Nodes), 1.3, objects / w, true},
		r.controlTarget(),
		{
			fmt.Sprintf("such messages in a second, of all %d nodes", most.Nodes),
			0,
			messages * n / most.Last,
			messages > 0,
		},
		{
			"all else that left the server, for each node, in KB: manifest, map of the boot pack, index, what was " +
				"broken off",
			0,
			(payload(most.ServerSent, most.Segment) - objects - n*most.control()) / n / 1000,
			true,
		},
	}
	return append(out, r.K.beside(most)...)
}

// nodeTargets are about one node.
func (r *report) nodeTargets(alone []*aloneResult) []target {
	out := []target{r.wireTarget(), r.warmTarget()}
	if len(alone) == 0 {
		alone = []*aloneResult{{}} // whose targets say that it was not measured
	}
	for _, a := range alone {
		out = append(out, a.targets()...)
	}
	out = append(
		out,
		slices.Concat(r.processorTargets("prefetch"), r.processorTargets(bestName()), []target{r.memoryTarget()})...)
	if most, ok := r.largest(bestName()); ok {
		out = append(
			out,
			target{
				fmt.Sprintf("processor time of a block daemon in a storm of %d, on average, in s", most.Nodes),
				0,
				most.mean(func(n nodeRun) float64 { return n.Taken.CPU }),
				true,
			},
			target{
				fmt.Sprintf(
					"memory of a block daemon in a storm of %d, the most of all, beside the boot pack, in MB",
					most.Nodes,
				),
				0,
				most.most(r.besidePack) / 1e6,
				true,
			},
		)
	}
	return out
}

// warmTarget is about what a boot still takes of the network when its node's cache disk has all of it.
func (r *report) warmTarget() target {
	t := target{
		what:  "bytes of the root from the network where the node's cache is warm, the most of all nodes, in MB",
		limit: 1,
	}
	if i := r.faultRun("cache-warm"); i >= 0 {
		t.ok = true
		t.got = r.Faults[i].most(
			func(n nodeRun) float64 { return float64(n.Taken.Received["server"]+n.Taken.Received["peer"]) / 1e6 },
		)
	}
	return t
}

// processorTargets are about the block daemon of one node, which works the more the slower its link is: each frame
// that comes by itself wakes it. There is a line for each link.
func (r *report) processorTargets(system string) (out []target) {
	for _, k := range r.kinds() {
		if one, ok := r.typical(k, false); ok && k.nodes == 1 && k.system == system {
			out = append(
				out,
				target{
					fmt.Sprintf(
						"processor time of the block daemon for one boot, `%s`, link of %s, in s",
						system,
						one.links(),
					),
					0.5,
					one.mean(func(n nodeRun) float64 { return n.Taken.CPU }),
					true,
				},
			)
		}
	}
	if len(out) == 0 {
		out = append(
			out,
			target{
				what:  fmt.Sprintf("processor time of the block daemon for one boot, `%s`, in s", system),
				limit: 0.5,
			},
		)
	}
	return out
}

// kept is what a node keeps of a boot pack in its memory, in bytes.
func (r *report) kept() float64 { return float64(min(cmp.Or(r.Pack, r.BootSet), mostKept)) }

// mostKept is what a node of 4 GB or more keeps of a boot pack in its memory, in bytes: docs/node.md.
const mostKept = 256 << 20

// faultTargets are a line for each thing that can go wrong. It is missed when a node did not boot, or read a wrong
// byte.
func (r *report) faultTargets() (out []row) {
	for _, f := range faults() {
		if f.name == noFault {
			continue
		}
		line := row{
			f.what + ": every other node boots, without an I/O error or a wrong byte",
			"all",
			"not measured",
			"",
		}
		if i := r.faultRun(f.name); i >= 0 {
			booted, killed := r.Faults[i].booted()
			line[2], line[3] = fmt.Sprintf("%d of %d", booted, len(r.Faults[i].Each)-killed), r.Faults[i].verdict()
		}
		out = append(out, line)
	}
	line := row{
		"machines, emulated, whose clocks are wrong by an hour or more: every one boots",
		"all",
		"not measured",
		"",
	}
	if g, ok := r.skewRun(time.Hour.Seconds()); ok {
		line[2], line[3] = fmt.Sprintf("%d of %d", len(g.Booted), g.Guests), "met"
		if len(g.Booted) < g.Guests {
			line[3] = "**missed**"
		}
	}
	return append(out, line)
}

// verdict says how a run with a fault stands to its aim.
func (r stormRun) verdict() string {
	switch {
	case r.failed():
		return "**missed**"
	case r.Discarded:
		return "**discarded: " + r.Load.tooBusy() + "**"
	case r.unseen() != "":
		return "**" + r.unseen() + "**"
	}
	return "met"
}

// largest is the storm of a system with the most nodes, with a server's link that is as fast as a node's.
func (r *report) largest(system string) (m stormRun, ok bool) {
	for _, k := range r.kinds() {
		if x, good := r.typical(k, false); good && k.system == system && k.nodes > 1 && k.server == 0 {
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
