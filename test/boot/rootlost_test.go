package boot

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// lostTimeout is what a node takes to judge that its root is lost, with its last report, under emulation.
const lostTimeout = 6 * time.Minute

// Supervisor and block daemon of a running node are killed at once, so that neither replaces the other. The node
// restarts by itself, its boot is one that lost its root, and the next one tells why.
func TestRealBootLosesItsRoot(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 0x4d, 0, 1}, firmware: testkit.BIOS, group: bookworm}
	m := s.boot(n)
	g := s.shell(n)
	died := s.latest(n)
	// The shell has what it needs, and says nothing more.
	const kill = `(pids=$(pgrep -xf '@pando-(super|block).*') && kill -STOP $pids && kill -9 $pids) 2>&1 && echo killed`
	killed := time.Now()
	if out := s.run(g, kill); out != "killed" {
		t.Fatalf("kill: %s", out)
	}
	s.wait(n.name, lostTimeout+bootTimeout, m, func(n api.Node) bool {
		return n.Boot != nil && n.Boot.ID != died.ID && n.Boot.State == trace.Up
	})
	lost, err := s.API.Boot(t.Context(), died.ID)
	if err != nil || lost.State != trace.Failed || lost.Fault == nil || lost.Fault.Kind != trace.RootLost {
		t.Errorf("the boot that ended is %s, %+v, %v", lost.State, lost.Fault, err)
	}
	next := s.latest(n)
	if !slices.ContainsFunc(next.Events, func(e trace.Event) bool {
		return strings.Contains(e.Message, string(died.ID)) && strings.Contains(e.Message, "reads of its root")
	}) {
		t.Errorf("the next boot does not tell why: %+v", next.Events)
	}
	t.Logf("it began its next boot %s after it was killed", next.Started.Sub(killed))
}
