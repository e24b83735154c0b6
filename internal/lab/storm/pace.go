package storm

import (
	"runtime"
	"slices"

	"pando/internal/bench"
	"pando/internal/testkit"
)

// The share of the processors that a run may use: aimBusy for the first estimate of rates, retryBusy when a run is
// repeated and its use is known.
const (
	aimBusy   = 0.50
	retryBusy = 0.62
)

// sharedTime is the usual duration, in W/(eta B), of a storm whose nodes share pieces. The processor time of the nodes
// is spread over it. A faster storm is busier and repeated on slower links; needlessly slow links would measure
// time-outs instead of the swarm.
const sharedTime = 1.5

// costSet is the W, in bytes, for which the costs of systems were measured. Costs grow with W.
const costSet = 11.24e6

// mostFaster bounds how much faster links are for a storm with fewer nodes that share pieces. Such a storm takes almost
// as long as the largest one but uses less of the processors, so slow links would waste time.
const mostFaster = 6

// fastestLink bounds the chosen rates: the queue of a faster link would be longer than its delay of 50 ms requires.
const fastestLink = 500 * testkit.Mbit

// pace chooses the rates of links so that the processors are not too busy. The run with the most nodes comes first. A
// run that was too busy is repeated at a lower rate, and later runs of the same system are slowed down in proportion.
type pace struct {
	cores float64
	w     float64                 // W, in bytes
	rates map[string]testkit.Rate // for the largest number of nodes, by system
}

func newPace(w int64) *pace {
	return &pace{cores: float64(runtime.NumCPU()), w: float64(w), rates: map[string]testkit.Rate{}}
}

// rate returns the rate of a node's link for a run of a system; most is its largest number of nodes. With unicast only
// the server's link is always busy; when nodes share pieces, all links are.
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

// slower lowers a system's rate after a run that used the share busy of the processors, by at least one step.
func (p *pace) slower(name string, busy float64) {
	r := float64(p.rates[name])
	p.rates[name] = roundRate(min(r*retryBusy/busy, r*0.99))
}

// rounded are the possible rates within a power of ten.
var rounded = []float64{1, 1.2, 1.5, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9}

// roundRate rounds down to a possible rate.
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
