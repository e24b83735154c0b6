package storm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFaultIsOnTimelines: vanishing peers and cache disks in a storm of real block daemons are reported by the agent's
// code. They are on the real server's timelines of all affected boots. Every node that was not killed boots, and reads
// no wrong byte.
func TestFaultIsOnTimelines(t *testing.T) {
	needFull(t)
	small.tell(t, "3", "peers-killed", "cache-empty", "cache-removed")
}

// TestEveryFaultIsOnTimelines tests the same for every fault of the lab. A slow peer is noticed only if there is much
// to send.
func TestEveryFaultIsOnTimelines(t *testing.T) {
	needFull(t)
	const slow = "slow-peer"
	t.Run("most", func(t *testing.T) {
		small.tell(t, "5", slices.DeleteFunc(faultNames()[1:], func(name string) bool { return name == slow })...)
	})
	t.Run(slow, func(t *testing.T) { large.tell(t, "10", slow) })
}

// toldStorm is a storm that lasts long enough for nodes to report vanished peers, which takes them two seconds.
type toldStorm struct {
	blocks        int
	server, think string
}

var (
	small = toldStorm{4 * testRoot, "24mbit", "4"}
	large = toldStorm{shownBlocks, "24mbit", "1"}
)

func (x toldStorm) tell(t *testing.T, nodes string, names ...string) {
	t.Helper()
	s, out := newTestStormOf(
		t,
		smallRoot(x.blocks),
		"--tell",
		"--nodes",
		nodes,
		"--fault",
		strings.Join(names, ","),
		"--rate",
		"24mbit",
		"--server-rate",
		x.server,
		"--think",
		x.think,
	)
	if err := s.Measure(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("\n%s", out)
	var r report
	b, err := os.ReadFile(filepath.Join(s.Dir, "storm.json"))
	if err != nil || json.Unmarshal(b, &r) != nil || len(r.Faults) != 1+len(names) {
		t.Fatalf("%d runs of %d (%v)", len(r.Faults), 1+len(names), err)
	}
	for _, f := range r.Faults {
		if booted, killed := f.booted(); !f.Tell || f.unseen() != "" || booted+killed != f.Nodes {
			t.Errorf(
				"%s: %d nodes booted, %d killed; it is %s; timelines have %s, want one of %v of %s",
				f.Fault,
				booted,
				killed,
				f.unseen(),
				f.told(),
				findFault(f.Fault).tells,
				findFault(f.Fault).of.text,
			)
		}
	}
	for _, f := range r.Faults[1:] {
		if findFault(f.Fault).bad != "" {
			f.logSpoiled(t)
		}
	}
	for i, n := range r.Faults[len(r.Faults)-1].Each { // the last run
		if had := n.Taken.Served["disk"]; slices.Contains(names, "cache-removed") &&
			(had < r.BootSet/removedPart || had >= r.BootSet) {
			t.Errorf("cache-removed: node %d had %d bytes of its disk, W is %d", i, had, r.BootSet)
		}
	}
	nothingLeft(t, s)
}

// logSpoiled logs which nodes got bad answers, and which reported them.
func (r stormRun) logSpoiled(t *testing.T) {
	t.Helper()
	for i, n := range r.Each {
		t.Logf(
			"%s: %s waited for %d spoiled answers, %.2f s at most, where %.2f s are usual; it has to tell: %t, "+
				"and tells: %v",
			r.Fault,
			shortName(i),
			n.Spoiled,
			n.Waited,
			n.Taken.Usual,
			findFault(r.Fault).of.met(r, n),
			r.timeline(n),
		)
	}
}
