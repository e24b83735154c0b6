package boot

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// Directories that a node keeps on an NFS server survive a power cut and a change of the image; other changes are lost.
// Owner and mode come from the image, if it has the directory. While the NFS server is down writes wait, and nothing is
// lost. State is listed, reset, copied to another node, and removed after its node was deleted.
func TestRealBootKeepsDirectoriesOnNFS(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	export := filepath.Join(s.dir, "export")
	nfs, err := testkit.StartNFS(t.Context(), s.net, export, filepath.Join(s.dir, "nfs"))
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { logError(t, nfs.Close()) })
	state, persist, mounts := "nfs "+nfs.Export+"/state", []string{
		"/var/log",
		"/srv/data",
		"/var/lib/private",
	}, []string{
		nfs.Export + "/home /home nfs",
	}
	for _, d := range []string{"state", "home/alice"} {
		if err := os.MkdirAll(filepath.Join(export, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range []string{bookworm, trixie} {
		keeping := fleet.Keeping{StateOn: &state, Persist: &persist, Mounts: &mounts}
		if _, err := s.API.SetGroup(t.Context(), g,
			api.GroupSet{Settings: fleet.Settings{Keeping: keeping}}); err != nil {
			t.Fatal(err)
		}
	}
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 26, 0, 1}, firmware: testkit.BIOS, group: bookworm}
	s.announce(n)
	m, g := s.stateBoot(n)
	s.run(g, "echo kept > /var/log/mine; echo kept > /srv/data/mine; echo gone > /srv/mine; sync")
	if got := strings.Fields(s.run(g, "stat -c %a /var/lib/private; ls /home")); len(got) != 2 || got[0] != "700" ||
		got[1] != "alice" {
		t.Errorf("mode of what was seeded, and what is in /home: %v", got)
	}
	s.outage(g, nfs)
	s.cut(m)

	group := trixie
	if _, err := s.API.SetNodes(t.Context(), api.NodeSet{Select: n.name, Group: &group}); err != nil {
		t.Fatal(err)
	}
	m, g = s.stateBoot(n)
	got := strings.TrimSpace(s.run(g, "cat /var/log/mine /srv/data/mine /srv/data/later; ls /srv"))
	if got != "kept\nkept\nlater\ndata" {
		t.Errorf("after a power cut, with another image:\n%s", got)
	}
	s.healthy(g)
	s.keptSizes(n, m, "/var/log", "/srv/data", "/var/lib/private")
	s.reset(n, api.StateChange{}, true)
	s.powerOff(m)
	s.resetAndCopied(n, filepath.Join(export, "state"))
}

// resetAndCopied boots a node whose state is reset, and another one that gets a copy. When the first node is deleted,
// the second removes its state.
func (s *site) resetAndCopied(n node, export string) {
	s.t.Helper()
	ctx := s.t.Context()
	m, g := s.stateBoot(n)
	s.waitEventFor(
		n.name,
		stepTimeout,
		m,
		func(e trace.Event) bool { return e.Message == "the node's state was reset" },
	)
	if got := strings.TrimSpace(s.run(g, "ls /srv/data /var/log/mine 2>/dev/null; stat -c %a /var/lib/private; "+
		"echo copied > /srv/data/new; chmod 604 /srv/data/new; sync")); got != "/srv/data:\n700" {
		s.t.Errorf("after a reset:\n%s", got)
	}
	s.healthy(g)
	s.powerOff(m)

	other := node{name: "pc006", mac: fleet.MAC{0x52, 0x54, 0, 26, 0, 6}, firmware: testkit.BIOS, group: trixie}
	s.announce(other)
	if out, err := s.API.CopyState(ctx, other.name, api.StateChange{From: n.name}); err != nil ||
		len(out.Orders) != 1 ||
		out.On {
		s.t.Fatalf("copy: %+v, %v", out, err)
	}
	m, g = s.stateBoot(other)
	if got := strings.TrimSpace(s.run(g, "stat -c '%a %u' /srv/data/new; cat /srv/data/new")); got != "604 0\ncopied" {
		s.t.Errorf("after a copy:\n%s", got)
	}
	s.healthy(g)
	s.powerOff(m)

	if _, err := s.API.DeleteNodes(ctx, n.name, false); err != nil {
		s.t.Fatal(err)
	}
	list, err := s.API.State(ctx, "")
	left := slices.IndexFunc(list, func(x api.StateOf) bool { return !x.Deleted.IsZero() && x.Dir == n.name })
	if err != nil || left < 0 {
		s.t.Fatalf("what %s left: %+v, %v", n.name, list, err)
	}
	if _, err := s.API.ResetState(ctx, list[left].Node, api.StateChange{}); err != nil {
		s.t.Fatal(err)
	}
	m, _ = s.stateBoot(other)
	s.waitEventFor(
		other.name,
		stepTimeout,
		m,
		func(e trace.Event) bool { return e.Message == "the state of "+list[left].Node+" was removed" },
	)
	if got, err := os.ReadDir(export); err != nil || len(got) != 1 || got[0].Name() != other.name {
		s.t.Errorf("on the server: %v, %v", got, err)
	}
	s.powerOff(m)
}

// keptSizes waits until a booted node reports the sizes of what it keeps.
func (s *site) keptSizes(n node, m *testkit.Machine, paths ...string) {
	s.t.Helper()
	var last []api.StateOf
	s.wait(n.name, stepTimeout, m, func(api.Node) bool {
		last, _ = s.API.State(s.t.Context(), n.name)
		if len(last) != 1 || len(last[0].Places) != 1 {
			return false
		}
		for _, p := range paths {
			if !slices.ContainsFunc(
				last[0].Places[0].Paths,
				func(k fleet.KeptPath) bool { return k.Path == p && k.Bytes > 0 && time.Since(k.Since) < time.Hour },
			) {
				return false
			}
		}
		return len(last[0].Places[0].Paths) == len(paths)
	})
}

// reset orders a reset of what a node keeps, which the node's next boot carries out.
func (s *site) reset(n node, change api.StateChange, on bool) {
	s.t.Helper()
	if out, err := s.API.ResetState(s.t.Context(), n.name, change); err != nil || len(out.Orders) != 1 || out.On != on {
		s.t.Fatalf("reset: %+v, %v", out, err)
	}
}

// stateBoot boots a node and logs in when its state is in place and it is up.
func (s *site) stateBoot(n node) (*testkit.Machine, *testkit.Guest) {
	s.t.Helper()
	before, _ := s.API.NodeBoot(s.t.Context(), n.name) // the first boot has none before it: an empty id
	m, booted := s.powerOn(n)
	s.wait(n.name, bootTimeout, m, func(n api.Node) bool {
		return n.Boot != nil && n.Boot.ID != before.ID && n.Boot.State.Reached() && n.Running == n.Desired
	})
	booted()
	g := s.shell(n)
	s.healthy(g)
	s.waitEventFor(
		n.name,
		stepTimeout,
		m,
		func(e trace.Event) bool { return e.Stage == "state" && e.Kind == trace.End },
	)
	return m, g
}

// outage stops the NFS server during a write, which then waits.
func (s *site) outage(g *testkit.Guest, nfs *testkit.NFS) {
	s.t.Helper()
	if err := nfs.Kill(); err != nil {
		s.t.Fatal(err)
	}
	s.run(g, "nohup sh -c 'echo later > /srv/data/later; sync /srv/data/later; touch /run/written' > /dev/null 2>&1 &")
	s.run(g, "sleep 5; test ! -e /run/written")
	if err := nfs.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.run(g, "until test -e /run/written; do sleep 1; done")
}

// healthy expects no failed unit.
func (s *site) healthy(g *testkit.Guest) {
	s.t.Helper()
	if out := strings.TrimSpace(s.run(g, "systemctl is-system-running --wait; systemctl list-units --failed "+
		"--plain --no-legend")); out != "running" {
		s.t.Errorf(
			"the system is %s\n%s",
			out,
			s.run(
				g,
				"systemctl status --no-pager pando-state; journalctl -b -p warning --no-pager | tail -30; cat "+
					"/proc/mounts",
			),
		)
	}
}
