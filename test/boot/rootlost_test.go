package boot

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// lostTimeout bounds the time until an emulated node decides that its root is lost, and reports that.
const lostTimeout = 6 * time.Minute

// The only server of a node with a boot pack goes down, and the node's page cache is emptied. A login by ssh and at the
// console, reading the journal, and powering off still work.
func TestRealBootLogsInWithoutItsServer(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	for i, mac := range []fleet.MAC{{0x52, 0x54, 0, 0x4e, 0, 1}, {0x52, 0x54, 0, 0x4e, 0, 2}} {
		n := node{name: fmt.Sprintf("pc%03d", i+1), mac: mac, firmware: testkit.BIOS, group: bookworm}
		m := s.boot(n)
		s.traced(n, m) // two boots, for a boot pack
		logError(t, m.Close())
	}
	n := node{name: "pc003", mac: fleet.MAC{0x52, 0x54, 0, 0x4e, 0, 3}, firmware: testkit.BIOS, group: bookworm}
	s.announce(n)
	s.waitPack(n)
	m, booted := s.powerOn(n)
	s.waitUp(n, m)
	booted()
	s.logsIn(n, m)
}

// logsIn logs in repeatedly at a node whose server is down, and at last powers it off.
func (s *site) logsIn(n node, m *testkit.Machine) {
	s.t.Helper()
	g := s.shell(n)
	const held = "journalctl -q --no-pager -u pando-agent -o cat | grep 'what a login reads is held'"
	s.waitRun(g, held+" | wc -l", "1")
	s.t.Log(s.run(g, held))
	s.run(g, "echo root:lichen | chpasswd")
	addr, err := s.Address(s.t.Context(), n.mac)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		s.t.Fatal(err)
	}
	s.run(g, "echo 3 >/proc/sys/vm/drop_caches")
	begun := time.Now()
	for _, command := range []string{"id", "ls -l /", "ps ax", "ip address", "df /", "journalctl -q -n 3 --no-pager",
		"systemctl is-system-running || true", "dmesg | tail -n 2", "grep root /etc/passwd", "free", "uptime"} {
		if out := s.run(s.shellAt(n, addr), "bash -lc '"+command+"'"); out == "" {
			s.t.Errorf("%s says nothing", command)
		}
		s.t.Logf("%8s %s", time.Since(begun).Round(100*time.Millisecond), command)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), stepTimeout)
	defer cancel()
	for _, step := range []struct{ typed, shown string }{
		{"root", "Password:"},
		{"lichen", `root@` + n.name + `:.*# `},
		{"echo at the console: $((6 * 7))", "at the console: 42"},
	} {
		if err := m.Type(step.typed + "\n"); err != nil {
			s.t.Fatal(err)
		}
		if _, err := m.Console.Wait(ctx, step.shown); err != nil {
			s.t.Fatal(err)
		}
		s.t.Logf("%8s at the console: %s", time.Since(begun).Round(100*time.Millisecond), step.shown)
	}
	// A normal shutdown would wait for what services read when they stop.
	if err := m.Type("poweroff -ff\n"); err != nil {
		s.t.Fatal(err)
	}
	if err := m.WaitOff(ctx); err != nil {
		s.t.Error(err)
	}
	s.t.Logf("%8s off", time.Since(begun).Round(100*time.Millisecond))
}

// The supervisor and block daemon of a running node are killed at the same moment, so that neither replaces the other.
// The node restarts by itself, the boot counts as one that lost its root, and the next boot reports the reason.
func TestRealBootLosesItsRoot(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 0x4d, 0, 1}, firmware: testkit.BIOS, group: bookworm}
	m := s.boot(n)
	g := s.shell(n)
	died := s.latest(n)
	killed := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), bootTimeout)
	defer cancel()
	// The shell may need a page of the root afterwards, so the test does not wait for its output.
	g.Start(ctx, `pids=$(pgrep -xf '@pando-(super|block).*') && kill -STOP $pids && kill -9 $pids`)
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
