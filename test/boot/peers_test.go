package boot

import (
	"path/filepath"
	"testing"

	"pando/internal/api"
	"pando/internal/build"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/store"
	"pando/internal/testkit"
)

// One after the other, real machines boot from one server: the second takes pieces of the boot pack from the first, which
// has long booted, and both run what they should.
func TestRealBootFromPeers(t *testing.T) {
	needBoot(t)
	s := newSite(t, "own", "--uplink", "2mbit") // so that the server alone would take its time
	first := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 18, 0, 1}, firmware: testkit.BIOS, group: bookworm}
	second := node{name: "pc002", mac: fleet.MAC{0x52, 0x54, 0, 18, 0, 2}, firmware: testkit.BIOS, group: bookworm}
	s.announce(first)
	s.makePack(first, "usr/lib/systemd/systemd", "usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-252.so",
		"usr/lib/x86_64-linux-gnu/libcrypto.so.3", "usr/lib/x86_64-linux-gnu/libc.so.6", "usr/sbin/sshd")
	m, booted := s.powerOn(first)
	s.waitUp(first, m)
	booted()
	alone := s.wait(first.name, stepTimeout, m, func(n api.Node) bool { return n.Status != nil && n.Status.Bytes["pack"] > 0 })
	if got := alone.Status.Bytes["peer"]; got != 0 {
		t.Errorf("%s, which was alone, has %d bytes from peers", first.name, got)
	}
	m = s.boot(second)
	n := s.wait(second.name, stepTimeout, m, func(n api.Node) bool { return n.Status != nil && n.Status.Bytes["peer"] > 0 })
	t.Logf("%s: %v; %s: %v", first.name, alone.Status.Bytes, second.name, n.Status.Bytes)
	if n.Status.Rejected > 0 {
		t.Errorf("%s rejected %d objects", second.name, n.Status.Rejected)
	}
	s.prove(second, s.shell(second))
}

// makePack makes a boot pack of some files of what a node is to boot, so that nobody has to boot for it.
func (s *site) makePack(n node, files ...string) {
	s.t.Helper()
	ctx := s.t.Context()
	record, err := s.API.Node(ctx, n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	keys, err := identity.Open(filepath.Join(s.Config.Data, "keys"))
	if err != nil {
		s.t.Fatal(err)
	}
	dir, err := store.OpenDir(filepath.Join(s.Config.Data, "store"))
	if err != nil {
		s.t.Fatal(err)
	}
	v, err := dir.GetVersion(record.Desired)
	if err != nil {
		s.t.Fatal(err)
	}
	man, err := image.Verify(v.Manifest, v.Signature, keys.SitePublic())
	if err != nil {
		s.t.Fatal(err)
	}
	at, err := build.MapRoot(ctx, dir, man)
	if err != nil {
		s.t.Fatal(err)
	}
	var order build.Order
	for _, name := range files {
		f, ok := at.Find(name)
		if !ok {
			s.t.Fatalf("%s is not in the root", name)
		}
		order.Extents = append(order.Extents, image.Extent{Start: f.Start, Blocks: f.Blocks})
	}
	order.Booted = order.Blocks()
	r, err := build.Pack(ctx, build.PackOptions{Store: dir, Key: keys.Site, Version: record.Desired, Manifest: man, Order: order, Boots: 2})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Logf("boot pack: %d pieces, %.1f MB", r.Pieces, float64(r.Stored)/1e6)
}
