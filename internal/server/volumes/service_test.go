package volumes

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/volume"
)

// A node that connects again and again to a volume that cannot be served has one event for each reason in its boot.
func TestFailedVolumeIsToldOnce(t *testing.T) {
	t.Setenv("PATH", "") // there is no qemu-img
	log := slog.New(slog.DiscardHandler)
	r, err := registry.Open(t.Context(), registry.Options{Dir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := Open(Options{Dir: t.TempDir(), Registry: r, Now: time.Now, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	connect := func(id fleet.BootID) {
		node, server := net.Pipe()
		defer node.Close()
		defer server.Close()
		s.attachVolume(t.Context(), ticket{boot: registry.Boot{ID: id, Node: "pc1"},
			want: volume.Want{Size: 1 << 30, FileSystem: "ext4"}}, server)
	}
	count := func(id fleet.BootID) int {
		events, err := r.Events(t.Context(), registry.EventFilter{Boot: id})
		if err != nil {
			t.Fatal(err)
		}
		return len(events)
	}
	first, second := fleet.BootID("0123456789abcdef"), fleet.BootID("0123456789abcdee")
	for range 20 {
		connect(first)
	}
	if n := count(first); n != 1 {
		t.Errorf("20 connections that fail for one reason are told in %d events", n)
	}
	s.tellOf(t.Context(), registry.Boot{ID: first, Node: "pc1"}, "the node's volume: another reason", "")
	for range 2 {
		connect(second)
	}
	if n, m := count(first), count(second); n != 2 || m != 1 {
		t.Errorf("two reasons are told in %d events, one reason in the next boot in %d", n, m)
	}
	for range 50 {
		s.tellOf(t.Context(), registry.Boot{ID: second, Node: "pc1"}, time.Now().String(), "")
	}
	if n := count(second); n != reasonsMost {
		t.Errorf("a boot has %d events, want %d", n, reasonsMost)
	}
}
