package main

import (
	"math"
	"slices"
)

// estimate is what a system would take with a number of nodes that it was not measured with. Nothing of it was
// measured.
type estimate struct {
	System string  `json:"system"`
	Nodes  int     `json:"nodes"`
	Units  float64 `json:"units"` // until the last node has booted, in W/(eta B)
	Ratio  float64 `json:"ratio"` // to one node
	Server float64 `json:"server"`
	From   []int   `json:"from"` // numbers of nodes that were measured, which the line goes through
}

// modelText says how estimates are made.
const modelText = "a straight line through the runs with the fewest and the most nodes: against N where the " +
	"server sends each node " +
	"all of it, against the logarithm of N where nodes give each other what they have; and never less time than " +
	"the server's link takes for the bytes that the line says"

// model estimates rivals for the numbers of nodes that only Pando was measured with.
func (r *report) model() (out []estimate) {
	var most []int
	for _, k := range r.kinds() {
		if !slices.Contains(most, k.nodes) {
			most = append(most, k.nodes)
		}
	}
	slices.Sort(most)
	for _, s := range rivals(dnbd3{"-", "-"}) {
		few, many, ok := r.ends(s.name)
		if !ok {
			continue
		}
		for _, n := range most {
			if n > many.Nodes {
				out = append(out, s.estimate(few, many, n))
			}
		}
	}
	return out
}

// ends are the runs of a system with the fewest and the most nodes, on the same links where that was measured.
func (r *report) ends(system string) (few, many stormRun, ok bool) {
	for _, k := range r.kinds() {
		m, good := r.typical(k, false)
		if k.system != system || k.server != 0 || !good {
			continue
		}
		if few.Nodes == 0 {
			few = m
		}
		many = m
	}
	if m, good := r.like(kind{few.Nodes, system, many.NodeRate, many.kind().server}, false); good {
		few = m
	}
	return few, many, many.Nodes > few.Nodes
}

func (s system) estimate(few, many stormRun, n int) estimate {
	scale := func(n int) float64 { return float64(n) }
	if s.shared {
		scale = func(n int) float64 { return math.Log2(float64(n)) }
	}
	line := func(of func(stormRun) float64) float64 {
		slope := (of(many) - of(few)) / (scale(many.Nodes) - scale(few.Nodes))
		return of(few) + slope*(scale(n)-scale(few.Nodes))
	}
	e := estimate{
		System: s.name,
		Nodes:  n,
		Units:  line(stormRun.units),
		Server: line(stormRun.amplification),
		From:   []int{few.Nodes, many.Nodes},
	}
	e.Units = max(e.Units, many.floor(e.Server))
	if few.Nodes == 1 {
		e.Ratio = e.Units / few.units()
	}
	return e
}

// floor is how long the server's link takes at least for bytes that are given in W, as the kernel counts them: each
// frame takes what is around it, too, and one that is not full takes more of that. It is in W/(eta B), of a node's
// link.
func (r stormRun) floor(server float64) float64 {
	slower := 1.0
	if r.NodeRate > 0 && r.ServerRate > 0 {
		slower = float64(r.NodeRate) / float64(r.ServerRate)
	}
	return server * eta * onWire * slower
}
