package storm

import (
	"runtime"
	"slices"

	"pando/internal/bench"
	"pando/internal/testkit"
)

// aimBusy is what rates are chosen for, by estimate; retryBusy for a run that is made again, by what was measured.
const (
	aimBusy   = 0.50
	retryBusy = 0.62
)

// sharedTime is what a storm usually takes where nodes give each other what they have, in W/(eta B), and what each
// node takes of the processors is spread over it. One that takes less is busier, and made again on slower links;
// links that are slower than they have to be show time-outs rather than the swarm.
const sharedTime = 1.5

// costSet is the W that the costs of systems were measured with, in bytes; they grow with it.
const costSet = 11.24e6

// mostFaster bounds by how much faster links a storm of fewer nodes has, of a system whose nodes give each other
// what they have. The time until all have it hardly depends on their number, and what they take of the processors
// does: on the links of the largest storm one node alone would take nearly as long as all of them, and hardly
// anything of the processors.
const mostFaster = 6

// fastestLink bounds what is chosen: the queue of a faster link would be longer than 50 ms need it.
const fastestLink = 500 * testkit.Mbit

// pace chooses the rates of links, by what a run takes of the processors. The run with the most nodes comes first,
// and one that was too busy is made again, as much slower as that was too busy; what follows of that system is
// slower by as much.
type pace struct {
	cores float64
	w     float64                 // bytes
	rates map[string]testkit.Rate // of the most nodes of each system
}

func newPace(w int64) *pace {
	return &pace{cores: float64(runtime.NumCPU()), w: float64(w), rates: map[string]testkit.Rate{}}
}

// rate is that of a node's link, for a run of so many nodes of up to most. By unicast the server's link is full all
// the time and the nodes take turns; where nodes give each other what they have, all links are.
func (p *pace) rate(s bench.System, nodes, most int) testkit.Rate {
	r, ok := p.rates[s.Name]
	if !ok {
		full := 1.0
		if s.Shared {
			full = float64(most) / sharedTime
		}
		cost := s.Cost * p.w / costSet
		r = roundRate(p.w * 8 * p.cores * aimBusy / (bench.Eta * cost * full))
		p.rates[s.Name] = r
	}
	if !s.Shared {
		return r
	}
	return roundRate(min(float64(most)/float64(nodes), mostFaster) * float64(r))
}

// slower lowers a system's rate after a run that took so much of the processors, by a step at least.
func (p *pace) slower(name string, busy float64) {
	r := float64(p.rates[name])
	p.rates[name] = roundRate(min(r*retryBusy/busy, r*0.99))
}

// rounded are the steps of rates, per power of ten.
var rounded = []float64{1, 1.2, 1.5, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9}

// roundRate rounds down to a step.
func roundRate(r float64) testkit.Rate {
	best := 100 * testkit.Kbit
	for unit := best; unit <= fastestLink; unit *= 10 {
		for _, f := range rounded {
			if v := testkit.Rate(f * float64(unit)); float64(v) <= r && v <= fastestLink {
				best = v
			}
		}
	}
	return best
}

// descending returns the numbers of nodes, largest first.
func descending(nodes []int) []int {
	out := slices.Clone(nodes)
	slices.Sort(out)
	slices.Reverse(out)
	return slices.Compact(out)
}
