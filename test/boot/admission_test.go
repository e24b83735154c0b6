package boot

import (
	"context"
	"strings"
	"testing"

	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// Two machines load K over a link that takes minutes for it, and use both admission slots. Two more, BIOS and UEFI,
// show their place and the expected seconds on their consoles, and load when the first two are switched off.
func TestRealBootWaitsForAdmission(t *testing.T) {
	needFull(t)
	slots <- struct{}{}
	t.Cleanup(func() { <-slots })
	s := newSite(t, "own", "--uplink", "1mbit")
	var loading []*testkit.Machine
	for i, name := range []string{"pc001", "pc002"} {
		n := node{name: name, mac: fleet.MAC{0x52, 0x54, 0, 9, 0, byte(i + 1)}, firmware: testkit.BIOS, group: bookworm}
		m := s.start(n)
		s.throttle("tap" + string(rune('1'+i)))
		s.waitEvent(n.name, m, reached(trace.Kernel))
		loading = append(loading, m)
	}
	waiting := []node{
		{name: "pc003", mac: fleet.MAC{0x52, 0x54, 0, 9, 0, 3}, firmware: testkit.BIOS, group: bookworm},
		{name: "pc004", mac: fleet.MAC{0x52, 0x54, 0, 9, 0, 4}, firmware: testkit.UEFI, group: bookworm},
	}
	machines := make([]*testkit.Machine, len(waiting))
	for i, n := range waiting {
		machines[i] = s.start(n)
	}
	for i, n := range waiting {
		ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
		line, err := machines[i].Console.Wait(ctx, n.name+" waits for its turn to load: place [12], about [0-9]+ s")
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		t.Log(line)
	}
	for _, m := range loading {
		logError(t, m.Close())
	}
	for i, n := range waiting {
		s.waitEvent(n.name, machines[i], reached(trace.Init))
		s.checkWait(n, machines[i])
	}
}

// start declares a machine and switches it on at once, without waiting for a free processor.
func (s *site) start(n node) *testkit.Machine {
	s.t.Helper()
	s.announce(n)
	m, err := testkit.StartMachine(
		testkit.MachineConfig{Name: n.name, Firmware: n.firmware, MAC: n.mac, Net: s.net, Dir: s.dir},
	)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { logError(s.t, m.Close()) })
	return m
}

// throttle limits the rate at which a machine receives.
func (s *site) throttle(tap string) {
	s.t.Helper()
	c := s.net.Command(
		s.t.Context(),
		"tc",
		"qdisc",
		"add",
		"dev",
		tap,
		"root",
		"tbf",
		"rate",
		"500kbit",
		"burst",
		"16kb",
		"latency",
		"100ms",
	)
	if out, err := c.CombinedOutput(); err != nil {
		s.t.Fatalf("slow down %s: %v\n%s", tap, err, out)
	}
}

// checkWait expects one line about the wait on the timeline, and several lines on the console.
func (s *site) checkWait(n node, m *testkit.Machine) {
	s.t.Helper()
	b, err := s.API.NodeBoot(s.t.Context(), n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	told := 0
	for _, e := range b.Events {
		if e.Stage == trace.Script && e.Kind == trace.Info &&
			strings.HasPrefix(e.Message, "waits for its turn: place ") {
			told++
		}
	}
	text, err := m.Console.Text()
	if err != nil {
		s.t.Fatal(err)
	}
	if asked := strings.Count(text, "waits for its turn to load"); told != 1 || asked < 2 {
		s.t.Errorf("%s: %d lines on the timeline and %d on the console, want one and several", n.name, told, asked)
	}
}
