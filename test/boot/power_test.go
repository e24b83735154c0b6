package boot

import (
	"context"
	"testing"
	"time"

	"pando/internal/fleet"
	"pando/internal/testkit"
)

// powerOff presses the power button until the machine is off: as long as udev has not loaded the button's driver, which
// it may do after the last unit is up, nobody hears it.
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

// A node that shuts down while its server is away waits for it, and then goes down.
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
