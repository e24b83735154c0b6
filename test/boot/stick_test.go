package boot

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// stick makes a boot medium of a size of its own with the command that people use.
func (s *site) stick(name, nodes string) string {
	s.t.Helper()
	file := filepath.Join(s.dir, name+".img")
	c := s.net.Command(s.t.Context(), filepath.Join(binDir, "pando"), "--data", s.Config.Data, "media", "create", nodes,
		"--output", file, "--size", "300MiB")
	if out, err := c.CombinedOutput(); err != nil {
		s.t.Fatalf("media create: %v\n%s", err, out)
	}
	return file
}

// A machine without PXE boots from a stick like any other: the stick's loader asks the server, and what runs comes from
// there.
func TestRealBootFromAStick(t *testing.T) {
	needBoot(t)
	s := newSite(t, "own")
	for _, n := range []node{
		{name: "bios-stick", mac: fleet.MAC{0x52, 0x54, 0, 9, 0, 1}, firmware: testkit.BIOS, group: bookworm},
		{name: "uefi-stick", mac: fleet.MAC{0x52, 0x54, 0, 9, 0, 2}, firmware: testkit.UEFI, group: trixie},
	} {
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			s := *s
			s.t = t
			n.stick = s.stick(n.name, "@"+n.group)
			m := s.boot(n)
			s.prove(n, s.shell(n))
			if text, err := m.Console.Text(); err != nil || !strings.Contains(text, "Pando: looking for a server") {
				t.Errorf("it was not the stick that started it (%v):\n%s", err, m.Console.Tail(40))
			}
		})
	}
}

// No server at all: the stick starts its own kernel, which says what it waits for, and goes on when the server is there.
func TestRealStickWaitsForAServer(t *testing.T) {
	needBoot(t)
	s := newSite(t, "own")
	n := node{name: "stick-alone", mac: fleet.MAC{0x52, 0x54, 0, 9, 0, 3}, firmware: testkit.BIOS, group: bookworm}
	n.stick = s.stick(n.name, "@"+n.group)
	s.announce(n)
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	m, booted := s.powerOn(n)
	ctx, cancel := context.WithTimeout(t.Context(), bootTimeout)
	defer cancel()
	for _, line := range []string{"Pando: no server answers; starting from this medium", "no DHCP server answered", "is a DHCP server on this network"} {
		if _, err := m.Console.Wait(ctx, line); err != nil {
			t.Fatalf("%v\n%s", err, m.Console.Tail(40))
		}
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.waitUp(n, m)
	booted()
	e := s.waitEvent(n.name, m, func(e trace.Event) bool { return e.Stage == trace.Script && e.Kind == trace.End })
	if e.Attrs["medium"] != "true" {
		t.Errorf("the timeline does not say that K came from a medium: %+v", e)
	}
	s.prove(n, s.shell(n))
}
