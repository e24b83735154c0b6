package boot

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
	"pando/internal/store"
	"pando/internal/testkit"
	"pando/internal/trace"
)

const (
	// mostReceived bounds the bytes on the wire with a boot pack, as a share of what a boot reads.
	mostReceived = 0.45

	// packTimeout bounds packing, which runs at a low priority: a desktop takes five minutes beside other tests.
	packTimeout = 20 * time.Minute
)

// Two boots record their reads. The server then makes a boot pack by itself; the next boot reads from it, receives less
// than half, and is otherwise the same. The boot after that gets pieces of the pack from it. The clocks of the nodes
// are an hour wrong: boots do not depend on them, and timelines say so.
func TestRealBootWithABootPackAndFromPeers(t *testing.T) {
	needBoot(t)
	s := newSite(t, "own", "--uplink", "2mbit") // so that the server alone would take its time
	recorders := []node{
		{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 16, 0, 1}, firmware: testkit.BIOS, group: bookworm},
		{name: "pc002", mac: fleet.MAC{0x52, 0x54, 0, 16, 0, 2}, firmware: testkit.BIOS, group: bookworm},
	}
	machines, booted := make([]*testkit.Machine, len(recorders)), make([]func(), len(recorders))
	for i, n := range recorders {
		s.announce(n)
		machines[i], booted[i] = s.powerOn(n)
	}
	for i, n := range recorders {
		m := machines[i]
		s.waitUp(n, m)
		booted[i]()
		first := s.recording(n, m)
		t.Logf("%s, without a pack: %s", n.name, first.Message)
		if number(t, first, "hits") != 0 || number(t, first, "read") < 10e6 {
			t.Errorf("%s: %+v", n.name, first.Attrs)
		}
		s.traced(n, m)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	n := node{name: "pc003", mac: fleet.MAC{0x52, 0x54, 0, 16, 0, 3}, firmware: testkit.BIOS, group: bookworm,
		clock: time.Hour}
	s.announce(n)
	pack := s.waitPack(n)
	t.Logf(
		"boot pack of %d boots: %d pieces, %.1f MB, %.1f MB sent",
		pack.Boots,
		pack.Pieces,
		float64(pack.Raw)/1e6,
		float64(pack.Stored)/1e6,
	)
	m, up := s.powerOn(n)
	s.waitUp(n, m)
	up()
	e := s.recording(n, m)
	t.Logf("%s, with a pack: %s", n.name, e.Message)
	read, received := number(t, e, "read"), number(t, e, "received")
	if ratio := received / read; !(ratio <= mostReceived) {
		t.Errorf("%.0f bytes received for %.0f read: %.2f, want at most %.2f", received, read, ratio, mostReceived)
	}
	if number(t, e, "hits") < 0.9*read {
		t.Errorf("%.0f of %.0f bytes read were in the pack", number(t, e, "hits"), read)
	}
	s.timelineHasPack(n)
	g := s.shell(n)
	t.Logf("block daemon: %.1f MB at its peak, with the pack", float64(s.daemonMemory(g))/1e6)
	s.prove(n, g)
	s.clockWas(n, "ahead of", m)
	s.wait(n.name, stepTimeout, m, func(n api.Node) bool { return n.Status != nil && n.Status.Bytes["pack"] > 0 })
	s.bootFromPeer(n)
}

// recording waits for the event about the reads of a node's boot.
func (s *site) recording(n node, m *testkit.Machine) trace.Event {
	s.t.Helper()
	return s.waitEvent(n.name, m, func(e trace.Event) bool { return e.Attrs["received"] != "" })
}

// traced waits until the server has the reads of a node's boot. The event about them may come before.
func (s *site) traced(n node, m *testkit.Machine) {
	s.t.Helper()
	s.tracedOf(fleet.Ref(n.group), n, m)
}

// tracedOf is traced for a version.
func (s *site) tracedOf(ref fleet.Ref, n node, m *testkit.Machine) {
	s.t.Helper()
	id := s.latest(n).ID
	s.wait(n.name, stepTimeout, m, func(api.Node) bool {
		known, err := s.API.ImageTrace(s.t.Context(), ref)
		return err == nil && slices.ContainsFunc(known.Boots, func(b api.TraceBoot) bool { return b.Boot == id })
	})
}

// number returns an attribute of an event, in bytes.
func number(t *testing.T, e trace.Event, name string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(e.Attrs[name], 64)
	if err != nil {
		t.Fatalf("event %q: attribute %s: %v", e.Message, name, err)
	}
	return n
}

// waitPack waits until the version that a node should boot has a boot pack.
func (s *site) waitPack(n node) bootpack.Record {
	s.t.Helper()
	return s.waitPackOf(n, func(bootpack.Record) bool { return true })
}

// waitPackOf waits until that version has a boot pack that good accepts.
func (s *site) waitPackOf(n node, good func(bootpack.Record) bool) (found bootpack.Record) {
	s.t.Helper()
	dir, err := store.OpenDir(filepath.Join(s.Config.Data, "store"))
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), packTimeout)
	defer cancel()
	if _, err := s.WaitNode(ctx, n.name, func(n api.Node) bool {
		packs, err := dir.Packs(n.Desired)
		if err != nil || len(packs) == 0 || !good(packs[0]) {
			return false
		}
		found = packs[0]
		return true
	}); err != nil {
		s.t.Fatalf("no boot pack: %v\nserver:\n%s", err, testkit.Console{Path: s.Config.Log}.Tail(15))
	}
	return found
}

// daemonMemory returns the peak memory of a node's block daemon, in bytes.
func (s *site) daemonMemory(g *testkit.Guest) int64 {
	s.t.Helper()
	const peak = `awk '/^VmHWM/ {print $2}' /proc/$(pgrep -xf '@pando-block.*')/status`
	kib, err := strconv.ParseInt(s.run(g, peak), 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return kib * 1024
}

// timelineHasPack expects the bytes of the boot pack in the booted event on the timeline.
func (s *site) timelineHasPack(n node) {
	s.t.Helper()
	b, err := s.API.NodeBoot(s.t.Context(), n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, step := range b.Steps {
		if step.Stage == trace.Booted && step.Bytes["pack"] > 0 {
			return
		}
	}
	s.t.Errorf("the timeline of %s has no bytes of the boot pack: %+v", n.name, b.Steps)
}
