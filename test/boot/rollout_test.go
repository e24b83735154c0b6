package boot

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// brokenUnit adds a failing unit to an image that otherwise works.
const brokenUnit = `printf '[Service]\nType=oneshot\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n' > /etc/systemd/system/broken.service &&
	systemctl enable broken.service`

// A version with a failing unit is rolled out. The canary boots it and rolls back by itself, although the server is
// killed and restarted meanwhile; the other machine never boots it. Then a good version reaches both, one after the
// other.
func TestRealRollout(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	good := s.pin(bookworm)
	s.command("image", "shell", bookworm, "--tag", "bad", "--", "sh", "-euc", brokenUnit)
	s.command("image", "shell", string(good), "--tag", "next", "--", "sh", "-euc", "echo next > /etc/motd")
	nodes := []node{{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 30, 0, 1}, firmware: testkit.BIOS, group: bookworm},
		{name: "pc002", mac: fleet.MAC{0x52, 0x54, 0, 30, 0, 2}, firmware: testkit.BIOS, group: bookworm}}
	var machines []*testkit.Machine
	for _, n := range nodes {
		s.announce(n)
		m, booted := s.powerOn(n)
		t.Cleanup(booted)
		machines = append(machines, m)
	}
	first := map[string]fleet.BootID{}
	for i, n := range nodes {
		first[n.name] = s.waitUp(n, machines[i]).Boot.ID
	}
	s.told(nodes, machines)

	s.command("rollout", "start", "@"+bookworm, "--image", bookworm+":bad", "--canary", "1", "--max-unavailable", "1")
	s.wait("pc001", bootTimeout, machines[0], func(n api.Node) bool {
		return n.Boot.ID != first["pc001"] && trace.Rank(n.Boot.Stage) >= trace.Rank(trace.Register)
	})
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code, out := s.watchRollout(bookworm); code != 9 || !strings.Contains(out, "broken.service") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	s.runs(nodes, machines, good)
	if n := s.wait("pc002", stepTimeout, machines[1],
		func(api.Node) bool { return true }); n.Boot.ID != first["pc002"] {
		t.Error("the machine that was no canary has booted")
	}
	if boots, err := s.API.Boots(t.Context(), "pc001", 9); err != nil || len(boots) != 3 {
		t.Errorf("the canary has booted %d times, %v", len(boots), err)
	}

	s.command(
		"rollout",
		"start",
		"@"+bookworm,
		"--image",
		bookworm+":next",
		"--canary",
		"1",
		"--wave",
		"1",
		"--max-unavailable",
		"1",
	)
	if code, out := s.watchRollout(bookworm); code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	g, err := s.API.Group(t.Context(), bookworm)
	if err != nil || !strings.HasPrefix(string(g.Image), bookworm+"@") || g.Desired == version(good) {
		t.Errorf("%+v, %v", g, err)
	}
	s.runs(nodes, machines, g.Image)
	if got := s.run(s.shell(nodes[1]), "cat /etc/motd"); got != "next" {
		t.Errorf("motd %q", got)
	}
}

// pin sets a group's image to the digest of the version that its tag names, so that the tag can move.
func (s *site) pin(group string) fleet.Ref {
	s.t.Helper()
	g, err := s.API.Group(s.t.Context(), group)
	if err != nil {
		s.t.Fatal(err)
	}
	ref := fleet.Ref(group + "@" + string(g.Desired))
	if _, err := s.API.SetGroup(s.t.Context(), group, api.GroupSet{Image: &ref}); err != nil {
		s.t.Fatal(err)
	}
	return ref
}

func version(ref fleet.Ref) fleet.Digest {
	_, _, d, _ := ref.Split()
	return d
}

// told waits until each node has reported its failed units.
func (s *site) told(nodes []node, machines []*testkit.Machine) {
	s.t.Helper()
	for i, n := range nodes {
		s.wait(
			n.name,
			bootTimeout,
			machines[i],
			func(n api.Node) bool { return n.Status != nil && n.Status.Systemd != nil },
		)
	}
}

// runs waits until each node reports the version as running and needs no reboot.
func (s *site) runs(nodes []node, machines []*testkit.Machine, ref fleet.Ref) {
	s.t.Helper()
	for i, n := range nodes {
		s.wait(n.name, bootTimeout, machines[i], func(n api.Node) bool {
			return n.Boot.State.Reached() && n.Running == version(ref) && n.Desired == version(ref) && n.Rollout == ""
		})
	}
}

// watchRollout watches the newest rollout of a group until it ends.
func (s *site) watchRollout(group string) (code int, out string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*bootTimeout)
	defer cancel()
	c := exec.CommandContext(
		ctx,
		filepath.Join(binDir, "pando"),
		"--data",
		s.Config.Data,
		"rollout",
		"watch",
		"@"+group,
	)
	b, err := c.CombinedOutput()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return ended.ExitCode(), string(b)
	}
	if err != nil {
		s.t.Fatalf("watch: %v\n%s", err, b)
	}
	return 0, string(b)
}

// A version with a failing unit is rolled out to two of six machines. While they boot it, the server is killed and one
// of them loses power. In the end all six run their old version, the group's image is the old one, and four of them
// were never rebooted.
func TestRealRolloutOfSix(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	good := s.pin(bookworm)
	s.command("image", "shell", bookworm, "--tag", "bad", "--", "sh", "-euc", brokenUnit)
	var nodes []node
	var machines []*testkit.Machine
	first := map[string]fleet.BootID{}
	for i := range 6 {
		n := node{
			name:     fmt.Sprintf("pc%03d", i+1),
			mac:      fleet.MAC{0x52, 0x54, 0, 31, 0, byte(i + 1)},
			firmware: testkit.BIOS,
			group:    bookworm,
			memory:   640,
		}
		s.announce(n)
		nodes = append(nodes, n)
	}
	for pair := range slices.Chunk(nodes, 2) { // one machine for each processor
		var done []func()
		for _, n := range pair {
			m, booted := s.powerOn(n)
			machines, done = append(machines, m), append(done, booted)
		}
		for i, n := range pair {
			first[n.name] = s.waitUp(n, machines[len(machines)-len(pair)+i]).Boot.ID
			done[i]()
		}
	}
	s.told(nodes, machines)
	s.command(
		"rollout",
		"start",
		"@"+bookworm,
		"--image",
		bookworm+":bad",
		"--canary",
		"pc002,pc005",
		"--max-unavailable",
		"2",
	)
	for _, i := range []int{1, 4} {
		s.wait(nodes[i].name, bootTimeout, machines[i], func(n api.Node) bool {
			return n.Boot.ID != first[n.Name] && trace.Rank(n.Boot.Stage) >= trace.Rank(trace.Register)
		})
	}
	if err := errors.Join(s.Kill(), machines[4].Close()); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, booted := s.powerOn(nodes[4])
	defer booted()
	machines[4] = m
	if code, out := s.watchRollout(bookworm); code != 9 || !strings.Contains(out, "broken.service") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	s.runs(nodes, machines, good)
	g, err := s.API.Group(t.Context(), bookworm)
	if err != nil || g.Image != good {
		t.Errorf("%+v, %v", g, err)
	}
	for _, i := range []int{0, 2, 3, 5} {
		if b, err := s.API.NodeBoot(t.Context(), nodes[i].name); err != nil || b.ID != first[nodes[i].name] {
			t.Errorf("%s was no canary, and has booted; %v", nodes[i].name, err)
		}
	}
}
