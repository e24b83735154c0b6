package main

import (
	"testing"

	"pando/internal/testkit"
)

// By unicast N does not matter, because the server's link is what all wait for; with peers all links are full at once.
func TestPace(t *testing.T) {
	alone, together := system{name: "alone", cost: 1}, system{name: "together", cost: 1, shared: true}
	for _, w := range []float64{costSet, 5 * costSet} {
		p := &pace{cores: 2, w: w, rates: map[string]testkit.Rate{}}
		// A boot set takes 1 s of a processor, and half of two processors may be taken: one each second, of 96 Mb. A larger one
		// takes as much longer.
		if got := p.rate(alone, 40); got != 90*testkit.Mbit {
			t.Errorf("by unicast: got %s", got)
		}
		if got := p.rate(together, 40); got != 3500*testkit.Kbit {
			t.Errorf("with peers: got %s, want the step below 3.6 Mb/s", got)
		}
		if got := p.rate(together, 1); got != 3500*testkit.Kbit {
			t.Errorf("with fewer nodes: got %s, want the same", got)
		}
		if p.slower("alone", 1); p.rate(alone, 40) != 55*testkit.Mbit {
			t.Errorf("slower: got %v", p.rates)
		}
		if p.slower("together", 0.51); p.rate(together, 40) != 3*testkit.Mbit {
			t.Errorf("slower by little: got %v", p.rates)
		}
	}
}

// In the short form a node by itself has faster links where nodes share; elsewhere all runs of a system have the same.
func TestLoneNodeHasFasterLinks(t *testing.T) {
	for _, full := range []bool{false, true} {
		s := &storm{nodes: []int{1, 10, 40}, full: full}
		p := newPace(costSet)
		rates := map[string][]testkit.Rate{}
		for _, name := range []string{bestName(), "prefetch"} {
			for _, n := range []int{40, 10, 1} {
				j := job{System: name, Nodes: n}
				s.choose(p, &j)
				rates[name] = append(rates[name], j.Node)
			}
		}
		if r := rates["prefetch"]; r[1] != r[0] || r[2] != r[0] {
			t.Errorf("full %v, by unicast: %v", full, r)
		}
		if r := rates[bestName()]; r[1] != r[0] || (r[2] >= 5*r[0]) == full || full && r[2] != r[0] {
			t.Errorf("full %v, with peers: %v", full, r)
		}
	}
}
