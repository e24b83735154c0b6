package storm

import (
	"testing"

	"pando/internal/bench"
	"pando/internal/lab/rivals"
	"pando/internal/testkit"
)

// With unicast the number of nodes does not matter, because the server's link is the bottleneck; with peers all links
// are busy.
func TestPace(t *testing.T) {
	alone, together := bench.System{Name: "alone", Cost: 1}, bench.System{Name: "together", Cost: 1, Shared: true}
	for _, w := range []float64{costSet, 5 * costSet} {
		p := &pace{cores: 2, w: w, rates: map[string]testkit.Rate{}}
		// A boot set costs 1 s of a processor, and half of two processors may be used: one boot set of 96 Mb each
		// second. A larger boot set costs more in proportion.
		if got := p.rate(alone, 40, 40); got != 90*testkit.Mbit {
			t.Errorf("by unicast: got %s", got)
		}
		if got := p.rate(together, 40, 40); got != 3500*testkit.Kbit {
			t.Errorf("with peers: got %s, want the step below 3.6 Mb/s", got)
		}
		if got := p.rate(alone, 1, 40); got != 90*testkit.Mbit {
			t.Errorf("fewer by unicast: got %s, want the same", got)
		}
		if p.slower("alone", 1); p.rate(alone, 40, 40) != 55*testkit.Mbit {
			t.Errorf("slower: got %v", p.rates)
		}
		if p.slower("together", 0.51); p.rate(together, 40, 40) != 3*testkit.Mbit {
			t.Errorf("slower by little: got %v", p.rates)
		}
	}
}

// If nodes share pieces, storms with fewer nodes have faster links, up to a limit. For other systems all runs have the
// same rate.
func TestFewerNodesHaveFasterLinks(t *testing.T) {
	for _, c := range []struct {
		nodes []int
		times []testkit.Rate
	}{
		{[]int{40, 10, 1}, []testkit.Rate{1, 4, 6}},
		{[]int{200, 40, 10, 1}, []testkit.Rate{1, 5, 6, 6}},
		{[]int{1}, []testkit.Rate{1}},
	} {
		s := &Storm{rivals: rivals.All(), nodes: c.nodes}
		p := newPace(costSet)
		var first job
		for i, n := range c.nodes {
			shared, unicast := job{System: bestName(), Nodes: n}, job{System: "prefetch", Nodes: n}
			s.choose(p, &shared)
			s.choose(p, &unicast)
			if i == 0 {
				first = shared
			}
			if want := roundRate(float64(c.times[i] * first.Node)); shared.Node != want || shared.Server != want {
				t.Errorf("%d of %d share: %s, want %s", n, c.nodes[0], shared.Node, want)
			}
			if unicast.Node != p.rates["prefetch"] {
				t.Errorf("%d of %d by unicast: %s, want %s", n, c.nodes[0], unicast.Node, p.rates["prefetch"])
			}
		}
	}
}

// A storm that was too busy also slows down later storms with fewer nodes.
func TestSlowerForFewerToo(t *testing.T) {
	s := &Storm{rivals: rivals.All(), nodes: []int{40, 10, 1}}
	p := newPace(costSet)
	most, fewer := job{System: bestName(), Nodes: 40}, job{System: bestName(), Nodes: 10}
	s.choose(p, &most)
	p.slower(bestName(), 1)
	s.choose(p, &fewer)
	if fewer.Node >= 4*most.Node || fewer.Node <= most.Node {
		t.Errorf("%s for 40, then %s for 10", most.Node, fewer.Node)
	}
}
