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

// A boot that waits for the server of its node state counts as failed on Pando's server, until that server is back. The
// timeline then shows what took long: a oneshot unit, as in systemd-analyze, and what ran between the stages.
func TestRealBootSaysWhatItWaitsFor(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	export := filepath.Join(s.dir, "export")
	nfs, err := testkit.StartNFS(t.Context(), s.net, export, filepath.Join(s.dir, "nfs"))
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { logError(t, nfs.Close()) })
	if err := os.MkdirAll(filepath.Join(export, "state"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := nfs.Kill(); err != nil {
		t.Fatal(err)
	}
	state, persist := "nfs "+nfs.Export+"/state", []string{"/srv/data"}
	keeping := fleet.Keeping{StateOn: &state, Persist: &persist}
	if _, err := s.API.SetGroup(t.Context(), bookworm,
		api.GroupSet{Settings: fleet.Settings{Keeping: keeping}}); err != nil {
		t.Fatal(err)
	}
	s.declare("all", "/etc/systemd/system/slow.service",
		"[Unit]\nBefore=multi-user.target\n[Service]\nType=oneshot\nExecStart=/bin/sleep 45\n", api.ConfigSet{})
	s.declare("all", "/etc/systemd/system/multi-user.target.d/slow.conf", "[Unit]\nWants=slow.service\n",
		api.ConfigSet{})
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 0x4c, 0, 2}, firmware: testkit.BIOS, group: bookworm}
	s.announce(n)
	m, booted := s.powerOn(n)
	s.wait(n.name, bootTimeout, m, func(api.Node) bool {
		failed, err := s.API.FailedBoots(t.Context(), "", 0)
		return err == nil && slices.ContainsFunc(failed, func(b api.Boot) bool {
			return b.Fault != nil && b.Fault.Kind == trace.StateAway && strings.Contains(b.Fault.Text, nfs.Export)
		})
	})
	if err := nfs.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wait(n.name, bootTimeout, m, func(n api.Node) bool { return n.Boot.State.Reached() && n.Status.Systemd != nil })
	booted()
	g := s.shell(n)
	b, err := s.API.NodeBoot(t.Context(), n.name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(s.run(g, "systemd-analyze blame | grep -v '[.]device$' | head -5")) {
		f := strings.Fields(line)
		name := f[len(f)-1]
		if !slices.ContainsFunc(b.Systemd.Units, func(u api.UnitTime) bool { return u.Unit == name }) {
			t.Errorf("%s is in no list: %+v", strings.TrimSpace(line), b.Systemd.Units)
		}
	}
	i := slices.IndexFunc(b.Systemd.Units, func(u api.UnitTime) bool { return u.Unit == "slow.service" })
	if i < 0 || b.Systemd.Units[i].Active-b.Systemd.Units[i].Start < 45*time.Second || !b.Systemd.Units[i].Chain {
		t.Errorf("slow.service: %+v", b.Systemd.Units)
	}
	i = slices.IndexFunc(b.Gaps, func(g api.Gap) bool { return g.Before == trace.Booted })
	if i < 0 || !strings.Contains(b.Gaps[i].Text, "slow.service (4") {
		t.Errorf("between the stages: %+v", b.Gaps)
	}
	for _, g := range b.Gaps {
		t.Logf("%s %s before %s: %s", g.Start, g.Took, g.Before, g.Text)
	}
}
