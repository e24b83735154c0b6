package boot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// stick makes a boot medium of a given size with the operator's command.
func (s *site) stick(name, nodes string) string {
	s.t.Helper()
	file := filepath.Join(s.dir, name+".img")
	c := s.net.Command(s.t.Context(), filepath.Join(binDir, "pando"), "--data", s.Config.Data, "media", "create", nodes,
		"--output", file, "--size", "600MiB")
	if out, err := c.CombinedOutput(); err != nil {
		s.t.Fatalf("media create: %v\n%s", err, out)
	}
	return file
}

// A machine without PXE boots from a stick: the stick's loader requests the server's script, and the system comes from
// the server.
func TestRealBootFromAStick(t *testing.T) {
	needFull(t)
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

// Without any server the stick starts its own kernel, which says what it waits for, and continues when the server is
// there.
func TestRealStickWaitsForAServer(t *testing.T) {
	needFull(t)
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
	for _, line := range []string{"Pando: no server answers; starting from this medium", "no DHCP server " +
		"answered", "is a DHCP server on this network"} {
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
	s.proveRoot(n, s.shell(n)) // the timeline lacks firmware, kernel and initramfs
}

// keepsBoots allows the nodes of a group to boot from their disks.
func (s *site) keepsBoots(group string) {
	s.t.Helper()
	kind, offline := fleet.CacheDisk, true
	if _, err := s.API.SetGroup(s.t.Context(), group,
		api.GroupSet{Settings: fleet.Settings{Cache: &kind, Offline: &offline}}); err != nil {
		s.t.Fatal(err)
	}
}

// With all servers down, including DHCP, a node boots its last version from its disk, up to the login prompt, and
// reports that when a server is back. The test logs in only then: no earlier boot had a login, so the disk lacks what a
// login reads.
func TestRealBootWithDeadServers(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	s.keepsBoots(bookworm)
	n := node{
		name:       "pc-alone",
		mac:        fleet.MAC{0x52, 0x54, 0, 9, 0, 4},
		firmware:   testkit.BIOS,
		group:      bookworm,
		cacheBoots: true,
	}
	n.cache = s.stick(n.name, "@"+n.group)
	s.announce(n)
	s.cut(s.cacheBoot(n, "with a server"))
	before := s.latest(n)
	addr, err := s.Address(t.Context(), n.mac)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	m, booted := s.powerOn(n)
	ctx, cancel := context.WithTimeout(t.Context(), 2*bootTimeout) // the loader looks for a server first
	defer cancel()
	if _, err := m.Console.Wait(ctx, n.name+" login:"); err != nil {
		t.Fatal(err)
	}
	booted()
	if text, err := m.Console.Text(); err != nil || !strings.Contains(text, "no server answers; "+n.name+" in group") {
		t.Errorf("it did not boot without a server (%v):\n%s", err, m.Console.Tail(60))
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wait(n.name, bootTimeout, m, func(n api.Node) bool {
		return n.Boot != nil && n.Boot.ID != before.ID && n.Boot.State.Reached() && n.Running == n.Desired
	})
	s.hasEvent(n, "no server answers; "+n.name+" in group")
	s.hasEvent(n, "no DHCP server answers; "+addr.String())
	s.hasEvent(n, "booted from its own disk while no server answered")
	g := s.shellAt(n, addr)
	if out := s.run(g, "systemctl is-system-running --wait; cat /proc/sys/kernel/hostname"); out != "running\n"+n.name {
		t.Errorf("the node says %q", out)
	}
	s.noErrors(n, g)
}

// A disk of a running node becomes a boot medium. The node boots from it with a server, and without one after the
// server that its loader waits for has died.
func TestRealNodeMadeBootable(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	s.keepsBoots(trixie)
	n := node{name: "pc-disk", mac: fleet.MAC{0x52, 0x54, 0, 9, 0, 5}, firmware: testkit.UEFI, group: trixie,
		cache: filepath.Join(s.dir, "disk.img")}
	if err := errors.Join(os.WriteFile(n.cache, nil, 0o644), os.Truncate(n.cache, 600<<20)); err != nil {
		t.Fatal(err)
	}
	m := s.boot(n)
	s.prepareCache(n, "/dev/sda", "--bootable")
	s.cut(m)
	first := s.latest(n).ID
	n.cacheBoots = true
	m, booted := s.powerOn(n)
	s.wait(
		n.name,
		bootTimeout,
		m,
		func(n api.Node) bool { return n.Boot != nil && n.Boot.ID != first && n.Boot.State.Reached() },
	)
	booted()
	if text, err := m.Console.Text(); err != nil || !strings.Contains(text, "Pando: looking for a server") {
		t.Errorf("it was not the disk that started it (%v):\n%s", err, m.Console.Tail(40))
	}
	s.hasEvent(n, "cache on /dev/sda5")
	s.prove(n, s.shell(n))
	s.recording(n, m) // its disk has what it read by then
	s.cut(m)
	s.startsWithoutItsServer(n)
}

// startsWithoutItsServer switches a node on that has nothing to boot yet, so that its loader repeats its requests. It
// then kills the server, and waits until the node has booted from its disk.
func (s *site) startsWithoutItsServer(n node) {
	s.t.Helper()
	const empty = "without-an-image"
	if _, err := s.API.CreateGroup(s.t.Context(), fleet.Group{Name: empty}); err != nil {
		s.t.Fatal(err)
	}
	group := empty
	if _, err := s.API.SetNodes(s.t.Context(), api.NodeSet{Select: n.name, Group: &group}); err != nil {
		s.t.Fatal(err)
	}
	m, booted := s.powerOn(n)
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*bootTimeout) // DHCP is down, too: the loader takes four minutes
	defer cancel()
	if _, err := m.Console.Wait(ctx, "Pando: this machine cannot boot"); err != nil {
		s.t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		s.t.Fatal(err)
	}
	for _, line := range []string{"Pando: no answer from http", "Pando: no server answers; starting from this " +
		"medium", n.name + " login:"} {
		if _, err := m.Console.Wait(ctx, line); err != nil {
			s.t.Fatalf("%v\n%s", err, m.Console.Tail(60))
		}
	}
	booted()
	if text, err := m.Console.Text(); err != nil ||
		!strings.Contains(text, "no server answers; "+n.name+" in group "+n.group) {
		s.t.Errorf("it did not boot what it had (%v):\n%s", err, m.Console.Tail(60))
	}
}
