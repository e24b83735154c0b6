package boot

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/build/packer"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/imagefs"
	"pando/internal/store"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// bootFromPeer boots a node that gets pieces of the boot pack from a node that has booted long before.
func (s *site) bootFromPeer(first node) {
	s.t.Helper()
	record, err := s.API.Node(s.t.Context(), first.name)
	if err != nil {
		s.t.Fatal(err)
	}
	if got := record.Status.Bytes["peer"]; got != 0 {
		s.t.Errorf("%s, which was alone, has %d bytes from peers", first.name, got)
	}
	second := node{
		name:     "pc004",
		mac:      fleet.MAC{0x52, 0x54, 0, 16, 0, 4},
		firmware: testkit.BIOS,
		group:    bookworm,
		clock:    -time.Hour,
	}
	m := s.boot(second)
	n := s.wait(
		second.name,
		stepTimeout,
		m,
		func(n api.Node) bool { return n.Status != nil && n.Status.Bytes["peer"] > 0 },
	)
	s.t.Logf("%s: %v; %s: %v", first.name, record.Status.Bytes, second.name, n.Status.Bytes)
	if n.Status.Rejected > 0 {
		s.t.Errorf("%s rejected %d objects", second.name, n.Status.Rejected)
	}
	s.clockWas(second, "behind", m)
	g := s.shell(second)
	before := time.Now().Add(-time.Minute) // a slow answer of the guest is not a wrong clock
	if seconds, err := strconv.ParseInt(strings.TrimSpace(s.run(g, "date +%s")), 10, 64); err != nil ||
		time.Unix(seconds, 0).Before(before) ||
		time.Unix(seconds, 0).After(time.Now().Add(time.Minute)) {
		s.t.Errorf("the clock of %s says %v (%v)", second.name, time.Unix(seconds, 0), err)
	}
	s.prove(second, g)
	s.repairFrom(first)
}

// repairFrom damages a piece of a node's boot pack in the store, and repairs it from the node's copy.
func (s *site) repairFrom(n node) {
	s.t.Helper()
	record, err := s.API.Node(s.t.Context(), n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	dir, err := store.OpenDir(filepath.Join(s.Config.Data, "store"))
	if err != nil {
		s.t.Fatal(err)
	}
	var pieces []chunk.ID
	if err := dir.PackUses(s.t.Context(), record.Running,
		func(id chunk.ID) { pieces = append(pieces, id) }); err != nil ||
		len(pieces) == 0 {
		s.t.Fatalf("%d pieces, %v", len(pieces), err)
	}
	path := dir.ObjectPath(pieces[len(pieces)/2])
	good := s.read(path)
	s.flip(path)
	out, err := s.net.Command(s.t.Context(), filepath.Join(binDir, "pando"), "--data", s.Config.Data, "store",
		"check", "--from", "node:"+n.name).
		CombinedOutput()
	if err != nil || !strings.Contains(string(out), "taken from node "+n.name) {
		s.t.Errorf("store check --from node:%s: %v\n%s", n.name, err, out)
	}
	if !bytes.Equal(s.read(path), good) {
		s.t.Error("the piece is not what it was")
	}
}

// clockWas expects a node's timeline to say how its clock was wrong, and the events to have the server's time.
func (s *site) clockWas(n node, how string, m *testkit.Machine) {
	s.t.Helper()
	e := s.waitEvent(n.name, m, func(e trace.Event) bool { return e.Stage == trace.Register && e.Kind == trace.Info })
	var wrong, unit string
	if _, err := fmt.Sscanf(e.Message, "clock: was %s %s", &wrong, &unit); err != nil ||
		!strings.Contains(e.Message, how+" the server's, set to it") {
		s.t.Errorf("%s said %q, want how far its clock was %s the server's (%v)", n.name, e.Message, how, err)
	}
	if off, err := time.ParseDuration(wrong); err != nil || off < 50*time.Minute || off > 70*time.Minute {
		s.t.Errorf("%s: the clock was wrong by %q, want an hour", n.name, wrong)
	}
	if ago := time.Since(e.Time); ago < -time.Minute || ago > 2*bootTimeout {
		s.t.Errorf("%s: the event is of %v, %v ago", n.name, e.Time, ago)
	}
}

// makePack makes a boot pack of some files of a node's next version, so that no boot has to be recorded.
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
	at, err := imagefs.ReadMap(ctx, dir, man)
	if err != nil {
		s.t.Fatal(err)
	}
	var order packer.Order
	for _, name := range files {
		f, ok := at.Find(name)
		if !ok {
			s.t.Fatalf("%s is not in the root", name)
		}
		order.Extents = append(order.Extents, bootpack.Extent{Start: f.Start, Blocks: f.Blocks})
	}
	order.Booted = order.Blocks()
	r, err := packer.Make(
		ctx,
		packer.Options{
			Store:    dir,
			Keys:     keys.Ring.Signers(),
			Version:  record.Desired,
			Manifest: man,
			Order:    order,
			Boots:    2,
		},
	)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Logf("boot pack: %d pieces, %.1f MB", r.Pieces, float64(r.Stored)/1e6)
}
