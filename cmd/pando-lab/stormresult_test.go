package main

import (
	"slices"
	"testing"
)

// What is added to what was measured before stands beside runs of the same program, and in the place of those of another one.
func TestAddReplacesOtherReleases(t *testing.T) {
	r := &report{}
	for _, x := range []stormRun{
		{Release: "a", System: "peers", Nodes: 10, Last: 1}, {Release: "a", System: "peers", Nodes: 40, Last: 2}, {Release: "a", System: "nfs", Nodes: 10, Last: 3},
		{Release: "b", System: "peers", Nodes: 10, Last: 4}, {Release: "b", System: "peers", Nodes: 10, Last: 5},
		{Release: "b", System: "peers", Nodes: 40, Last: 6, Discarded: true}, // nothing to show in the place of what is there
	} {
		r.add(x)
	}
	var got []float64
	for _, x := range r.Runs {
		got = append(got, x.Last)
	}
	if want := []float64{2, 3, 4, 5, 6}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
}
