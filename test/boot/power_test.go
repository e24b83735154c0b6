package boot

import (
	"context"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// powerOff presses the power button until the machine is off. Before udev has loaded the button's driver, which may be
// after the last unit is up, a press has no effect.
func (s *site) powerOff(m *testkit.Machine) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), stepTimeout)
	defer cancel()
	for ctx.Err() == nil {
		pressed := m.PowerButton(ctx)
		press, again := context.WithTimeout(ctx, 30*time.Second)
		err := m.WaitOff(press)
		again()
		if err == nil {
			return
		}
		if pressed != nil {
			s.t.Fatal(pressed)
		}
	}
	s.t.Errorf("%s is still on; its console ends with:\n%s", m.Config.Name, m.Console.Tail(15))
}

// A node that shuts down while its server is down waits for the server, and then shuts down.
func TestRealBootGoesDownWhenItsServerIsBack(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 9, 0, 1}, firmware: testkit.UEFI, group: trixie}
	m := s.boot(n)
	g := s.shell(n)
	s.run(g, "systemctl is-system-running --wait; nohup sh -c 'sleep 5; systemctl poweroff' >/dev/null 2>&1 &")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Minute)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	if err := m.WaitOff(ctx); err != nil {
		t.Error(err)
	}
}

// TestRealKexec: a node boots again by kexec, without firmware, and then its agent powers it off.
func TestRealKexec(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 9, 0, 2}, firmware: testkit.BIOS, group: bookworm}
	m := s.boot(n)
	first, err := s.API.NodeBoot(t.Context(), n.name)
	if err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	done, err := s.API.SwitchNode(t.Context(), n.name, api.PowerDo{Action: api.PowerKexec})
	if err != nil || done.Did == "" {
		t.Fatalf("%+v, %v", done, err)
	}
	asked := time.Since(started)
	up := s.wait(n.name, bootTimeout, m, func(now api.Node) bool {
		return now.Boot != nil && now.Boot.ID != first.ID && now.Boot.State.Reached() && now.Running == now.Desired
	})
	t.Logf("asked for %s, up %s after that", asked.Round(time.Second), (time.Since(started) - asked).Round(time.Second))
	second, err := s.API.NodeBoot(t.Context(), n.name)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range second.Events {
		if e.Stage == trace.BootFile || e.Stage == trace.DHCP {
			t.Errorf("firmware had a part in boot %s: %s %s", up.Boot.ID, e.Stage, e.Message)
		}
	}
	g := s.shell(n)
	if line := s.run(g, "cat /proc/cmdline"); !strings.Contains(line, "pando.boot="+string(up.Boot.ID)) {
		t.Errorf("it runs with %s", line)
	}
	if _, err := s.API.SwitchNode(t.Context(), n.name, api.PowerDo{Action: api.PowerOff}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	if err := m.WaitOff(ctx); err != nil {
		t.Error(err)
	}
}
