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
	hungOutage = 75 * time.Second // long enough for several reports of a hung task
	hungBefore = 8 * time.Second  // time for the shells to start
)

// A kernel that reports programs which wait too long for a missing server lets them continue when the server is back. A
// kernel that is set to panic on that panics, so nodes do not set that: docs/node-state.md.
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

// booted is a node that is up, with a shell.
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

// both declares a machine for each image; the test's number is part of their addresses.
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

// hang ends the server and makes two shells on each node read the same directory of its root. The shell that waits for
// the server can be killed, so it does not count as hung. The one that waits for the first shell's read does. Both run
// before the server ends, and start no other program afterwards.
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
