package storm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pando/internal/blockapi"
)

// whom says of which nodes it is wanted that they tell of a fault, among those that booted. One has to in any case.
type whom struct {
	text string // for the page
	met  func(r stormRun, n nodeRun) bool
}

var (
	// eachNode is for what no node can miss.
	eachNode = whom{"each node", func(stormRun, nodeRun) bool { return true }}

	// eachWaiting is for a server that goes when the storm is half of W/(eta B) old. No node has more than half of
	// W then. Where the server's link is no faster than theirs, nor have all of them together, so each still asks
	// for something that no peer has.
	eachWaiting = whom{
		"each node, unless the server's link is faster than theirs",
		func(r stormRun, _ nodeRun) bool { return r.ServerRate <= r.NodeRate },
	}

	// eachFed is for peers that vanish while much is to come: who was sent something by one watches it, as long as
	// all nodes know all others.
	eachFed = whom{
		"each node that one of them had sent something, of no more than a dozen",
		func(r stormRun, n nodeRun) bool { return n.Met && len(r.Each) <= allKnown },
	}

	// oneWaiting is for peers that are silent from one moment on: only who waits for one just then meets that, and
	// nobody else knows who does.
	oneWaiting = whom{"one of those that waited for one of them", func(stormRun, nodeRun) bool { return false }}

	// eachDeceived is for wrong bytes. Who begins later is told by the tracker whom to ask for nothing.
	eachDeceived = whom{
		"each node that dropped an answer",
		func(_ stormRun, n nodeRun) bool { return n.Taken.Rejected > 0 },
	}

	// eachBroken is for peers that break off: they note whom it happened to. A run that was made before they did
	// has nobody, and one has to tell.
	eachBroken = whom{
		"each node that waited for an answer that broke off",
		func(_ stormRun, n nodeRun) bool { return n.Spoiled > 0 },
	}

	// eachSlowed is for slow peers. Where all links are full, an answer at a tenth of the speed comes about as soon
	// as others do: a node can know only what was much slower than what it is used to.
	eachSlowed = whom{
		fmt.Sprintf("each node that waited for an answer for more than %d times as long as it usually does", slowTimes),
		func(_ stormRun, n nodeRun) bool { return n.Taken.Usual > 0 && n.Waited > slowTimes*n.Taken.Usual },
	}
)

// slowTimes is half as much again as what a node takes for slow: what is usual changes while it boots.
const slowTimes = 6

// allKnown is of how many nodes each knows all: a tracker names ten to each that joins, and who is named knows who
// watches it.
const allKnown = 12

// timeline is what a node put there, by kind: what the server has if nodes told it, else what its daemon had for it.
func (r stormRun) timeline(n nodeRun) map[string]int {
	if r.Tell {
		return n.Timeline
	}
	return n.Taken.Incidents
}

// tells reports whether a node's timeline has one of these kinds.
func (r stormRun) tells(n nodeRun, kinds []blockapi.IncidentKind) bool {
	told := r.timeline(n)
	return slices.ContainsFunc(kinds, func(k blockapi.IncidentKind) bool { return told[string(k)] > 0 })
}

// silent are the nodes of which it is wanted that they tell of the run's fault, and that did not.
func (r stormRun) silent() (out []int) {
	f := findFault(r.Fault)
	for i, n := range r.Each {
		if len(f.tells) > 0 && n.up() && f.of.met(r, n) && !r.tells(n, f.tells) {
			out = append(out, i)
		}
	}
	return out
}

// unseen says on which timelines the fault of a run is not that have to have it; "": on none, or it is nothing to
// be told.
func (r stormRun) unseen() string {
	f := findFault(r.Fault)
	if len(f.tells) == 0 {
		return ""
	}
	if !slices.ContainsFunc(r.Each, func(n nodeRun) bool { return r.tells(n, f.tells) }) {
		return "on no timeline"
	}
	var names []string
	for _, i := range r.silent() {
		names = append(names, shortName(i))
	}
	if len(names) == 0 {
		return ""
	}
	return "not on the timeline of " + strings.Join(names, ", ")
}

// told is what the nodes put on their timelines: how much of each kind, and how many of those that were not killed did.
func (r stormRun) told() string {
	events, nodes, all := map[string]int{}, map[string]int{}, 0
	for _, n := range r.Each {
		if n.Killed {
			continue
		}
		all++
		for kind, count := range r.timeline(n) {
			events[kind] += count
			nodes[kind]++
		}
	}
	var out []string
	kinds := slices.SortedFunc(
		maps.Keys(events),
		func(a, b string) int { return cmp.Or(cmp.Compare(events[b], events[a]), cmp.Compare(a, b)) },
	)
	for _, kind := range kinds {
		out = append(out, fmt.Sprintf("%s %d, %d of %d nodes", kind, events[kind], nodes[kind], all))
	}
	return strings.Join(out, "; ")
}

// meet notes which nodes had something of those that were killed.
func (r *stormRun) meet(nodes []*node) {
	for _, killed := range nodes {
		for i := range r.Each {
			if killed.killed.Load() && r.Each[i].Taken.Fed[killed.Net.Addr.Addr().String()] > 0 {
				r.Each[i].Met = true
			}
		}
	}
}
