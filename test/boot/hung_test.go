package boot

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
	"pando/internal/testkit"
)

const (
	hungAfter  = "10"             // seconds, where the kernel has 120
	hungOutage = 75 * time.Second // so that a wait is noticed several times
	hungBefore = 8 * time.Second  // for the shells to begin
)

// A kernel that finds programs which wait too long for a server that is away says so, and they go on when it is
// back. Told to panic it does that, so nodes are not: docs/node-state.md.
func TestRealHungTasks(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	nodes := s.bootBoth(s.both(39, 0)...)
	for _, n := range nodes {
		if got := s.run(n.g,
			"cat /proc/sys/kernel/hung_task_panic; dmesg -C; echo "+hungAfter+
				" >/proc/sys/kernel/hung_task_timeout_secs"); got != "0" {
			t.Errorf("%s: hung_task_panic is %s", n.group, got)
		}
	}
	wait := s.hang(nodes)
	time.Sleep(hungOutage)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, w := range wait {
		if out, err := w(); err != nil {
			t.Errorf("%s, reading while the server was away: %v\n%s", nodes[i/2].group, err, out)
		}
	}
	for _, n := range nodes {
		got := s.run(
			n.g,
			"systemctl is-system-running || true; dmesg | grep 'blocked for more than' || true; sysctl -qw "+
				"kernel.hung_task_panic=1",
		)
		t.Logf("%s after the outage: %s", n.group, got)
		if !strings.HasPrefix(got, "running\n") || !strings.Contains(got, "blocked for more than") {
			t.Errorf("%s: not well, or nobody had to wait for long", n.group)
		}
	}
	s.hang(nodes)
	begun := time.Now()
	for _, n := range nodes {
		ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
		if _, err := n.m.Console.Wait(ctx, "Kernel panic - not syncing: hung_task"); err != nil {
			t.Errorf("%s, told to panic: %v", n.group, err)
		}
		cancel()
		t.Logf(
			"%s: told to, it panics %v after the server went away",
			n.group,
			time.Since(begun).Round(100*time.Millisecond),
		)
	}
}

// booted is a node that is up, with a shell on it.
type booted struct {
	node
	m *testkit.Machine
	g *testkit.Guest
}

// bootBoth boots machines of both images at the same time.
func (s *site) bootBoth(nodes ...node) []booted {
	s.t.Helper()
	var up []booted
	var free []func()
	for _, n := range nodes {
		m, done := s.powerOn(n)
		up, free = append(up, booted{node: n, m: m}), append(free, done)
	}
	for i, n := range up {
		s.waitUp(n.node, n.m)
		free[i]()
		up[i].g = s.shell(n.node)
	}
	return up
}

// both announces a machine of each image; the test's number is in their addresses.
func (s *site) both(test byte, memory int) []node {
	s.t.Helper()
	var nodes []node
	for i, group := range []string{bookworm, trixie} {
		n := node{
			name:     fmt.Sprintf("pc%03d", i+1),
			group:    group,
			mac:      fleet.MAC{0x52, 0x54, 0, test, 0, byte(i + 1)},
			firmware: testkit.BIOS,
			memory:   memory,
		}
		s.announce(n)
		nodes = append(nodes, n)
	}
	return nodes
}

// hang ends the server and has each node look into a directory of its root by two shells that are in each other's
// way: who waits for the server alone can be killed, and so does not count as hung; who waits for another program's
// look does. The shells run before the server ends, and do the rest without another program.
func (s *site) hang(nodes []booted) (wait []func() (string, error)) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), hungOutage+bootTimeout)
	s.t.Cleanup(cancel)
	for _, n := range nodes {
		wait = append(
			wait,
			n.g.Start(
				ctx,
				"echo 3 >/proc/sys/vm/drop_caches; while ((SECONDS < 20)); do :; done; echo /usr/share/doc/* "+
					">/dev/null",
			),
			n.g.Start(ctx, "while ((SECONDS < 23)); do :; done; : >/usr/share/doc/here.$RANDOM"),
		)
	}
	time.Sleep(hungBefore)
	if err := s.Kill(); err != nil {
		s.t.Fatal(err)
	}
	return wait
}
