package main

import (
	"slices"
	"testing"
)

// What is added to what was measured before stands beside runs of the same program, and in the place of those of
// another one.
func TestAddReplacesOtherReleases(t *testing.T) {
	r := &report{}
	for _, x := range []stormRun{
		{Release: "a", System: "peers", Nodes: 10, Last: 1}, {Release: "a", System: "peers", Nodes: 40, Last: 2}, {Release: "a", System: "nfs", Nodes: 10, Last: 3},
		{Release: "a", System: "peers", Nodes: 10, NodeRate: 1e6, Last: 3.5},                  // on other links
		{Release: "a", System: "peers", Nodes: 10, NodeRate: 2e6, Last: 3.6, Discarded: true}, // and nothing to show
		{Release: "b", System: "peers", Nodes: 10, Last: 4}, {Release: "b", System: "peers", Nodes: 10, Last: 5},
		// nothing to show in the place of what is there
		{Release: "b", System: "peers", Nodes: 40, Last: 6, Discarded: true},
	} {
		r.add(x)
	}
	var got []float64
	for _, x := range r.Runs {
		got = append(got, x.Last)
	}
	if want := []float64{2, 3, 3.5, 4, 5, 6}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
}

// So do storms with a fault, or a change, and machines: each beside its like only.
func TestAddReplacesItsLike(t *testing.T) {
	r := &report{}
	for _, x := range []stormRun{
		{Release: "a", Fault: "none", Last: 1}, {Release: "a", Fault: "peers-killed", Last: 2}, {Release: "b", Fault: "none", Last: 3},
		{Release: "a", Pair: true, Last: 4}, {Release: "a", Pair: true, Change: change{Cold: true}, Last: 5}, {Release: "b", Pair: true, Change: change{Cold: true}, Last: 6},
	} {
		r.add(x)
	}
	var got []float64
	for _, x := range slices.Concat(r.Faults, r.Pairs) {
		got = append(got, x.Last)
	}
	if want := []float64{2, 3, 4, 6}; !slices.Equal(got, want) {
		t.Errorf("kept storms %v, want %v", got, want)
	}
	for _, x := range []guestRun{{Release: "a", Rate: 1}, {Release: "a", Rate: 1, Skew: 3600}, {Release: "b", Rate: 1}, {Release: "c", Rate: 1, Skew: 3600, Failed: []string{"one"}}} {
		r.addGuests(x)
	}
	var kept []string
	for _, x := range r.Guests {
		kept = append(kept, x.Release)
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(kept, want) {
		t.Errorf("kept machines of %v, want %v", kept, want)
	}
}
