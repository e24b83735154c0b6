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

// A line of fstab for a missing pool is masked. A line for a missing disk image leads to systemd's emergency mode, with
// root locked: the boot counts as failed within seconds, names the unit, and restarts after the group's time. After the
// line is fixed the machine boots.
func TestRealBootEmergency(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 0x4c, 0, 1}, firmware: testkit.BIOS, group: bookworm}
	s.announce(n)
	after := time.Minute
	if _, err := s.API.SetGroup(t.Context(), bookworm,
		api.GroupSet{Settings: fleet.Settings{RebootAfter: &after}}); err != nil {
		t.Fatal(err)
	}
	// A config file belongs to the administrator, so its lines are not masked.
	s.declare("all", "/etc/fstab", "/nowhere.img /home ext4 loop 0 0\n", api.ConfigSet{})
	m, booted := s.powerOn(n)
	e := s.waitEvent(n.name, m, func(e trace.Event) bool { return e.Stage == trace.Booted })
	if e.Kind != trace.Fail || !strings.Contains(e.Message, "emergency") || !strings.Contains(e.Message, "home.mount") {
		t.Errorf("the event is %+v", e)
	}
	if console, at := m.Console.Tail(200), e.Offset; !strings.Contains(console, "mergency") {
		t.Errorf("after %s the console tells of no emergency mode:\n%s", at, console)
	}
	s.wait(n.name, stepTimeout, m, func(api.Node) bool {
		failed, err := s.API.FailedBoots(t.Context(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(failed, func(b api.Boot) bool {
			return b.ID == e.Boot && b.Fault != nil && b.Fault.Kind == trace.EmergencyMode
		})
	})
	if _, err := s.API.DeleteConfigFile(t.Context(), api.ConfigDelete{For: fleet.Scope{Kind: fleet.ForAll},
		Path: "/etc/fstab"}); err != nil {
		t.Fatal(err)
	}
	s.wait(n.name, bootTimeout, m, func(n api.Node) bool {
		return n.Boot != nil && n.Boot.ID != e.Boot && n.Boot.State.Reached()
	})
	booted()
	g := s.shell(n)
	out := s.run(g, "systemctl is-active pando-agent pando-booted; systemctl list-units --plain --no-legend --failed")
	if out != "active\nactive" {
		t.Errorf("once mended: %s", out)
	}
}
