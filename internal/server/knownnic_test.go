package server

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/trace"
)

// TestDriversOfKnownNIC plays a node with two NICs from its first boot on: iPXE names the one, the other shows later.
func TestDriversOfKnownNIC(t *testing.T) {
	s := startSite(t)
	s.addImage(func(m *image.Manifest) { m.Drivers = storedDrivers(s.put) })
	n := s.node(1)
	const igb = "0180861533"
	expect := func(what, got, want string, cfg api.BootConfig) {
		t.Helper()
		if got != want || cfg.ShortDrivers != !strings.Contains(want, "EVERY") {
			t.Errorf("%s: drivers of %q, want %q; boot.json says short: %t", what, got, want, cfg.ShortDrivers)
		}
	}
	cfg, got := n.loadAs(igb)
	expect("first boot", got, "BASE! IGB!!", cfg)
	first := cfg.Boot

	// The machine does not reach the server. A reset soon after continues the same boot; a later one starts another.
	cfg, got = n.loadAs(igb)
	expect("same boot again", got, "BASE! EVERY", cfg)
	if cfg.Boot != first {
		t.Error("another boot")
	}
	var why []string
	events, err := s.registry.Events(t.Context(), registry.EventFilter{Boot: first})
	for _, e := range events {
		if e.Stage == trace.Script && e.Kind == trace.Info {
			why = append(why, e.Message)
		}
	}
	if err != nil || len(why) != 1 ||
		!strings.Contains(why[0], "every NIC are sent: boot "+string(first)+" was sent those of base igb only") {
		t.Errorf("the timeline says %q (%v)", why, err)
	}
	n.registerWith(cfg, fleet.Hardware{Modules: []string{"igb"}})

	cfg, got = n.loadAs(igb)
	expect("after one with all", got, "BASE! IGB!!", cfg)
	n.registerWith(cfg, fleet.Hardware{Modules: []string{"igb"}, Missing: []string{realtekNIC}})
	cfg, got = n.loadAs(igb)
	expect("with a second NIC", got, "BASE! EVERY", cfg)
	n.registerWith(cfg, fleet.Hardware{Modules: []string{"igb", "r8169"}})
	s.restart()
	n.site.Server = s.Server
	cfg, got = n.loadAs(igb)
	expect("both, after a restart of the server", got, "BASE! IGB!! R8169", cfg)
	n.clock.add(time.Hour)
	cfg, got = n.loadAs(igb)
	expect("the boot before was lost", got, "BASE! EVERY", cfg)

	if cfg, got = s.node(2).loadAs("0112345678"); got != "BASE! EVERY" || cfg.ShortDrivers {
		t.Errorf("a node with an unknown NIC was sent drivers of %q", got)
	}
	if cfg, got = s.node(3).loadAs("011af41000"); got != "BASE!" || !cfg.ShortDrivers {
		t.Errorf("a node with virtio was sent drivers of %q", got)
	}
}

// loadAs plays everything up to /init with a NIC that iPXE names, and returns the drivers that were sent.
func (n *node) loadAs(busID string) (cfg api.BootConfig, drivers string) {
	n.t.Helper()
	n.exchange(netboot.IPXE)
	n.wait(time.Second)
	status, script := n.get(
		"/boot/script?mac=" + strings.ReplaceAll(
			n.mac.String(),
			":",
			"-",
		) + "&ip=" + n.addr.String() + "&busid=" + busID,
	)
	if status != 200 {
		n.t.Fatalf("script: status %d: %s", status, script)
	}
	_, initramfs := urls(n.t, string(script))
	status, b := n.get(initramfs)
	if status != 200 {
		n.t.Fatalf("initramfs: status %d: %s", status, b)
	}
	var names []string
	for _, name := range []string{"BASE!", "EVERY", "IGB!!", "R8169"} {
		if bytes.Contains(b, []byte("DRIVERS-OF-"+name)) {
			names = append(names, name)
		}
	}
	return trust(n.t, b), strings.Join(names, " ")
}

// registerWith registers with some hardware.
func (n *node) registerWith(cfg api.BootConfig, h fleet.Hardware) {
	n.t.Helper()
	req := registrationOf(cfg)
	req.Hardware = h
	if e := n.post("/v1/node/hello", "", req, nil); e != nil {
		n.t.Fatalf("hello: %v (%s)", e, e.Hint)
	}
	n.clock.add(time.Hour)
}

// put stores an object.
func (s *site) put(data string) chunk.ID {
	s.t.Helper()
	w := s.store.NewWriter()
	defer w.Close()
	id, _, err := w.Put(s.t.Context(), []byte(data))
	if err == nil {
		err = w.Sync(s.t.Context())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}
