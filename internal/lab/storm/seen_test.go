package storm

import (
	"strings"
	"testing"

	"pando/internal/bench"
)

// The kinds of nodes in a run.
var (
	tellsOf = func(kind string) nodeRun { return nodeRun{Booted: 5, Timeline: map[string]int{kind: 1}} }
	silent  = nodeRun{
		Booted: 5,
		Taken:  bench.Usage{Incidents: map[string]int{"cache-failed": 1}},
	} // the incident is not on the server
	killed = nodeRun{Killed: true}
	missed = nodeRun{Failed: "it did not boot"}
)

// A fault is seen if every node reports it that has to, and at least one. The result names the nodes that do not.
func TestFaultIsSeen(t *testing.T) {
	fed, deceived, broken, patient := silent, silent, silent, silent
	fed.Met, deceived.Taken.Rejected, broken.Spoiled = true, 2, 1
	patient.Spoiled, patient.Waited, patient.Taken.Usual = 9, 0.99*slowTimes, 1
	slowed := patient
	slowed.Waited = 1.01 * slowTimes
	for _, x := range []struct {
		fault, want string
		nodes       []nodeRun
	}{
		{noFault, "", []nodeRun{silent, silent}},
		{"cache-warm", "", []nodeRun{silent}},
		{"cache-removed", "", []nodeRun{tellsOf("cache-failed"), tellsOf("cache-damaged")}},
		{"cache-removed", "not on the timeline of node 1",
			[]nodeRun{tellsOf("cache-failed"), silent, tellsOf("cache-damaged")}},
		{"cache-full", "not on the timeline of node 0, node 2",
			[]nodeRun{silent, tellsOf("cache-failed"), tellsOf("peer-left"), missed}},
		{"cache-full", "on no timeline", []nodeRun{silent, tellsOf("cache-damaged")}},
		{"server-killed", "not on the timeline of node 1", []nodeRun{tellsOf("server-down"), tellsOf("tracker-lost")}},
		{"tracker-lost", "not on the timeline of node 1", []nodeRun{tellsOf("tracker-lost"), tellsOf("server-down")}},
		{"peers-killed", "", []nodeRun{killed, tellsOf("peers-gone"), silent}},
		{"peers-killed", "not on the timeline of node 2", []nodeRun{killed, tellsOf("peers-gone"), fed}},
		{"peers-killed", "on no timeline", []nodeRun{killed, silent}},
		{"corrupt-peer", "", []nodeRun{tellsOf("peer-banned"), silent}},
		{"endless-peer", "not on the timeline of node 1", []nodeRun{tellsOf("peer-banned"), deceived}},
		// old results, without notes of bad peers
		{"slow-peer", "", []nodeRun{silent, tellsOf("peer-left"), silent}},
		{"slow-peer", "", []nodeRun{tellsOf("peer-failed"), patient, broken}},
		{"slow-peer", "not on the timeline of node 0", []nodeRun{slowed, tellsOf("peer-failed")}},
		{"short-peer", "on no timeline", []nodeRun{silent, silent}},
		{"short-peer", "", []nodeRun{silent, tellsOf("peer-failed")}},
		{"short-peer", "not on the timeline of node 2",
			[]nodeRun{tellsOf("peer-left"), tellsOf("peer-failed"), broken, missed}},
	} {
		r := stormRun{Fault: x.fault, Tell: true, NodeRate: 8, ServerRate: 8, Each: x.nodes}
		if got := r.unseen(); got != x.want {
			t.Errorf("%s: got %q, want %q", x.fault, got, x.want)
		}
		if line := r.line(); strings.Contains(line, "UNSEEN") != (x.want != "") || !strings.HasSuffix(line, x.want) {
			t.Errorf("%s: its line is %q", x.fault, line)
		}
	}
}

// A server with a faster link than the nodes may have sent everything before it fails, so not every node has to notice.
func TestServerThatSentAll(t *testing.T) {
	r := stormRun{
		Fault:      "tracker-lost",
		Tell:       true,
		NodeRate:   8,
		ServerRate: 9,
		Each:       []nodeRun{tellsOf("tracker-lost"), silent},
	}
	if got := r.unseen(); got != "" {
		t.Errorf("got %q", got)
	}
}

// The incidents on timelines are counted, and the nodes that reported them.
func TestTold(t *testing.T) {
	r := stormRun{
		Tell: true,
		Each: []nodeRun{
			{Booted: 5, Timeline: map[string]int{"peer-left": 2, "peers-gone": 1}},
			tellsOf("peer-left"),
			silent,
			killed,
		},
	}
	if got, want := r.told(), "peer-left 3, 2 of 3 nodes; peers-gone 1, 1 of 3 nodes"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if r.Tell = false; r.told() != "cache-failed 1, 1 of 3 nodes" {
		t.Errorf("of a run that told no server: %q", r.told())
	}
}

// Each fault that has to be reported says by which nodes.
func TestFaultsSayWhoTells(t *testing.T) {
	for _, f := range faults() {
		if (len(f.tells) > 0) != (f.of.text != "" && f.of.met != nil) {
			t.Errorf("%s: tells %v, and it is wanted of %q", f.name, f.tells, f.of.text)
		}
	}
}
