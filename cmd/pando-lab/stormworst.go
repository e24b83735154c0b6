package main

import (
	"fmt"
	"slices"
	"strings"

	"pando/internal/swarm"
)

// perNode is an aim for each node of any storm: it is of the number of nodes with which it is furthest.
type perNode struct {
	what  string // with a place for the numbers of nodes
	limit float64
	of    func(stormRun) float64 // 0: not measured
}

// target is the aim, with the worst of what was measured with all of Pando.
func (r *report) target(p perNode) target {
	out := target{what: fmt.Sprintf(p.what, "each N"), limit: p.limit}
	at, all := 0, []string{}
	for _, k := range r.kinds() {
		m, ok := r.typical(k, false)
		if k.system != bestName() || !ok || p.of(m) == 0 {
			continue
		}
		if n := fmt.Sprint(k.nodes); !slices.Contains(all, n) { // of several rates
			all = append(all, n)
		}
		if v := p.of(m); !out.ok || v > out.got {
			out.got, out.ok, at = v, true, k.nodes
		}
	}
	if out.ok {
		out.what = fmt.Sprintf(p.what, fmt.Sprintf("N=%d, the worst of %s", at, strings.Join(all, ", ")))
	}
	return out
}

// control is what a node and the tracker send each other, with HTTP's headers, in bytes.
func (r stormRun) control() float64 {
	return r.mean(func(n nodeRun) float64 { return float64(n.Taken.Control + n.Taken.Messages*swarm.HeaderBytes) })
}

func (r *report) controlTarget() target {
	return r.target(
		perNode{
			"messages with the tracker, for each node, in KB, %s",
			20,
			func(m stormRun) float64 { return m.control() / 1000 },
		},
	)
}

func (r *report) wireTarget() target {
	return r.target(perNode{"bytes on the wire of one boot, to bytes that it reads, %s", 0.35, stormRun.wire})
}

func (r *report) memoryTarget() target {
	return r.target(
		perNode{
			"memory of the block daemon beside the boot pack that it keeps, the most of all nodes, in MB, %s",
			24,
			func(m stormRun) float64 {
				return m.most(r.besidePack) / 1e6
			},
		},
	)
}

// besidePack is the memory that a node's block daemon had beside what it kept of its boot pack, in bytes: no more
// of that than it had received by then. 0: not measured.
func (r *report) besidePack(n nodeRun) float64 {
	if n.Taken.Memory == 0 {
		return 0
	}
	return float64(n.Taken.Memory) - min(r.kept(), sum(n.Taken.Received))
}
