package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/dhcp"
	"pando/internal/fleet"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/trace"
)

// lease commits a lease for a MAC, as the DHCP server does before it acknowledges it.
func (s *site) lease(mac fleet.MAC, addr string) error {
	client := netboot.Client{Kind: netboot.PXE, Arch: netboot.BIOS}
	known, err := s.booter.Snapshot(s.t.Context(), dhcp.Request{MAC: mac, Client: client}, nil)
	if err != nil {
		return err
	}
	a := netip.MustParseAddr(addr)
	return s.booter.Commit(s.t.Context(), dhcp.Change{Node: known.Node,
		Seen: dhcp.Seen{Time: s.now(), MAC: mac, Message: "REQUEST", Client: client, Requested: a, Reply: "ACK",
			Own: true},
		Leases: []fleet.Lease{{Addr: a, MAC: mac, Expires: s.now().Add(time.Hour)}}})
}

// withToken returns a client with a token.
func (s *site) withToken(secret string) *api.Client {
	s.t.Helper()
	c, err := api.OverTLS(fmt.Sprintf("127.0.0.1:%d", s.ports.Control), secret)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// bootsUp boots a node until it has reported that it is up, and returns the boot.
func (s *site) bootsUp(n *node) fleet.BootID {
	s.t.Helper()
	s.clock.add(time.Hour)
	if err := s.lease(n.mac, n.addr.String()); err != nil {
		s.t.Fatalf("the lease of a known node: %v", err)
	}
	id, _ := s.running(n)
	if p := s.progress(id); p.State != trace.Up {
		s.t.Errorf("boot %s: %+v", id, p)
	}
	if !slices.Contains(s.eventsOf(id), "booted end") {
		s.t.Errorf("boot %s has events %v", id, s.eventsOf(id))
	}
	return id
}

// emptyDisk removes what fillDisk wrote.
func emptyDisk(t *testing.T, dir string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "filler*"))
	for _, path := range all {
		err = errors.Join(err, os.Remove(path))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A server whose disk is completely full still boots known nodes, shows their boots, reports the full disk with a hint,
// refuses other changes, and can restart. With free space everything works as before.
func TestKnownNodesBootOnAFullDisk(t *testing.T) {
	s := startSite(t, onSmallDisk(t))
	s.addImage()
	s.policy(fleet.Open)
	n := s.node(1)
	made, err := api.OverHandler(s.socketRoutes()).
		CreateToken(t.Context(), api.TokenCreate{Name: "admin", Role: fleet.Admin})
	if err != nil {
		t.Fatal(err)
	}
	admin := s.withToken(made.Secret)
	s.bootsUp(n)
	declared := fleet.MAC{0x52, 0x54, 0, 0, 9, 1}
	s.update(func(tx *registry.Tx) error {
		return tx.CreateNode(fleet.Node{Name: "pc-declared", MACs: []fleet.MAC{declared}, State: fleet.Adopted,
			Group: fleet.DefaultGroup, Created: s.now()})
	})
	s.clock.add(time.Hour)
	s.registry.Relieve(t.Context())
	fillDisk(t, s.cfg.Dir)

	full := func() {
		t.Helper()
		s.registry.Relieve(t.Context())
		id := s.bootsUp(n)
		if err := s.lease(declared, "10.0.0.77"); err != nil {
			t.Errorf("the lease of a declared node: %v", err)
		}
		if err := s.lease(fleet.MAC{0x52, 0x54, 0, 0, 9, 2}, "10.0.0.78"); err == nil {
			t.Error("a machine that nobody knows has a lease that is nowhere")
		}
		status, err := admin.Status(t.Context())
		if err != nil || status.Disk == nil || !strings.Contains(status.Disk.Do, "store gc") {
			t.Fatalf("status on a full disk: %+v, %v", status.Disk, err)
		}
		if detail, err := admin.Boot(t.Context(), id); err != nil || detail.State != trace.Up {
			t.Errorf("the boot is shown as %s, %v", detail.State, err)
		}
		_, err = admin.CreateGroup(t.Context(), fleet.Group{Name: "g"})
		wantFull(t, "a change", err)
		_, err = admin.MissingObjects(t.Context(), api.ObjectList{Objects: []api.ObjectSize{}})
		wantFull(t, "an upload", err)
	}
	full()
	s.stop()
	fillDisk(t, s.cfg.Dir) // fills the space that the stop has freed
	s.start()
	admin = s.withToken(made.Secret)
	full()

	emptyDisk(t, s.cfg.Dir)
	s.registry.Relieve(t.Context())
	if status, err := admin.Status(t.Context()); err != nil || status.Disk != nil {
		t.Errorf("status with room again: %+v, %v", status.Disk, err)
	}
	if _, err := admin.CreateGroup(t.Context(), fleet.Group{Name: "g"}); err != nil {
		t.Errorf("a change with room again: %v", err)
	}
	id := s.bootsUp(n)
	s.restart()
	if p := s.progress(id); p.State != trace.Up {
		t.Errorf("after another start the boot is %+v", p)
	}
}

// wantFull fails unless an error says that the disk is full, with a hint.
func wantFull(t *testing.T, what string, err error) {
	t.Helper()
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.DiskFull || e.Status != http.StatusInsufficientStorage ||
		!strings.Contains(e.Hint, "store gc") {
		t.Errorf("%s on a full disk: %v", what, err)
	}
}
