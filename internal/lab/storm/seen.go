package storm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pando/internal/blockapi"
)

// whom says which of the booted nodes have to report a fault. At least one node always has to.
type whom struct {
	text string // for the page of results
	met  func(r stormRun, n nodeRun) bool
}

var (
	// eachNode is for faults that every node notices.
	eachNode = whom{"each node", func(stormRun, nodeRun) bool { return true }}

	// eachWaiting is for a server that fails after half of W/(eta B). No node has more than half of W then. If the
	// server's link is not faster than a node's, all nodes together do not have W either, so each node still requests
	// something that no peer has.
	eachWaiting = whom{
		"each node, unless the server's link is faster than theirs",
		func(r stormRun, _ nodeRun) bool { return r.ServerRate <= r.NodeRate },
	}

	// eachFed is for peers that vanish while much is still to be fetched. A node that got something from such a peer
	// watches it, as long as all nodes know each other.
	eachFed = whom{
		"each node that one of them had sent something, of no more than a dozen",
		func(r stormRun, n nodeRun) bool { return n.Met && len(r.Each) <= allKnown },
	}

	// oneWaiting is for peers that become silent. Only a node that waits for such a peer just then notices it, and the
	// lab does not know which nodes do.
	oneWaiting = whom{"one of those that waited for one of them", func(stormRun, nodeRun) bool { return false }}

	// eachDeceived is for wrong bytes. Nodes that begin later are told by the tracker which peers to avoid.
	eachDeceived = whom{
		"each node that dropped an answer",
		func(_ stormRun, n nodeRun) bool { return n.Taken.Rejected > 0 },
	}

	// eachBroken is for peers that break off transfers. Such peers note the nodes to which they did that. Old results
	// lack these notes; for them one node has to report.
	eachBroken = whom{
		"each node that waited for an answer that broke off",
		func(_ stormRun, n nodeRun) bool { return n.Spoiled > 0 },
	}

	// eachSlowed is for slow peers. If all links are full, an answer at a tenth of the speed takes about as long as
	// others. So a node can notice only an answer that is much slower than it is used to.
	eachSlowed = whom{
		fmt.Sprintf("each node that waited for an answer for more than %d times as long as it usually does", slowTimes),
		func(_ stormRun, n nodeRun) bool { return n.Taken.Usual > 0 && n.Waited > slowTimes*n.Taken.Usual },
	}
)

// slowTimes is 1.5 times the factor from which a node considers an answer slow, because the usual duration changes
// during a boot.
const slowTimes = 6

// allKnown is the number of nodes up to which every node knows all others: a tracker names ten peers to each node that
// joins, and a named node knows which nodes watch it.
const allKnown = 12

// timeline returns the incidents of a node by kind: those that the server has if nodes report them, otherwise those of
// the node's daemon.
func (r stormRun) timeline(n nodeRun) map[string]int {
	if r.Tell {
		return n.Timeline
	}
	return n.Taken.Incidents
}

// tells reports whether a node's timeline has an incident of one of these kinds.
func (r stormRun) tells(n nodeRun, kinds []blockapi.IncidentKind) bool {
	told := r.timeline(n)
	return slices.ContainsFunc(kinds, func(k blockapi.IncidentKind) bool { return told[string(k)] > 0 })
}

// silent returns the nodes that should have reported the run's fault and did not.
func (r stormRun) silent() (out []int) {
	f := findFault(r.Fault)
	for i, n := range r.Each {
		if len(f.tells) > 0 && n.up() && f.of.met(r, n) && !r.tells(n, f.tells) {
			out = append(out, i)
		}
	}
	return out
}

// unseen says which timelines lack the fault of a run; "": none, or the fault need not be reported.
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

// told describes the incidents that nodes reported: how many of each kind, and by how many of the nodes that were not
// killed.
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

// meet records which nodes had received something from killed nodes.
func (r *stormRun) meet(nodes []*node) {
	for _, killed := range nodes {
		for i := range r.Each {
			if killed.killed.Load() && r.Each[i].Taken.Fed[killed.Net.Addr.Addr().String()] > 0 {
				r.Each[i].Met = true
			}
		}
	}
}
