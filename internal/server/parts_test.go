package server

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pin/tftp/v3"

	"pando/internal/api"
	"pando/internal/dhcp"
	"pando/internal/fleet"
	"pando/internal/netboot"
	"pando/internal/registry"
)

// fetchTFTP reads a file with a TFTP client that is not Pando's.
func fetchTFTP(t *testing.T, s *site, name string) (string, error) {
	t.Helper()
	c, err := tftp.NewClient(s.listeners.tftp.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Receive(name, "octet")
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	_, err = w.WriteTo(&b)
	return b.String(), err
}

// TestTFTP: the server sends loaders and the script for new iPXE builds, and nothing else. The transfer is a stage of
// the boot.
func TestTFTP(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	n.exchange(netboot.PXE)
	if got, err := fetchTFTP(t, s, "undionly.kpxe"); err != nil || got != "loader" {
		t.Errorf("loader: %q, %v", got, err)
	}
	if got, err := fetchTFTP(t, s, "autoexec.ipxe"); err != nil ||
		!strings.Contains(got, s.ports.DataURL(local)+"/boot/script") {
		t.Errorf("autoexec.ipxe: %q, %v", got, err)
	}
	for _, name := range []string{"secret", "../data/keys/secret", "ipxe/undionly.kpxe", "none"} {
		if got, err := fetchTFTP(t, s, name); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	id := s.bootsOf("mac-525400000001")[0].ID
	want := "bootfile end"
	for deadline := time.Now().Add(10 * time.Second); !slices.Contains(s.eventsOf(id), want) &&
		time.Now().Before(deadline); {
		s.registry.Last() // a transfer is recorded when its last block is acknowledged
	}
	if got := s.eventsOf(id); !slices.Contains(got, want) {
		t.Errorf("events: %v", got)
	}
}

// TestBootFileByHTTP loads a boot file like UEFI HTTP Boot.
func TestBootFileByHTTP(t *testing.T) {
	s := startSite(t)
	n := s.node(1)
	n.exchange(netboot.HTTPBoot)
	if status, b := n.get(netboot.FilePath + "undionly.kpxe"); status != 200 || string(b) != "loader" {
		t.Errorf("status %d, %q", status, b)
	}
	if got := s.eventsOf(s.bootsOf("mac-525400000001")[0].ID); !slices.Contains(got, "bootfile end") {
		t.Errorf("events: %v", got)
	}
}

// TestLeases checks the registry's leases as the DHCP server sees them.
func TestLeases(t *testing.T) {
	s := startSite(t)
	l := recordedLeases{s}
	a, b := fleet.MAC{2, 0, 0, 0, 0, 1}, fleet.MAC{2, 0, 0, 0, 0, 2}
	seven, eight := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.0.0.8")
	byMAC := func(m fleet.MAC) (fleet.Lease, bool) {
		t.Helper()
		got, found, err := l.LeaseByMAC(m)
		if err != nil {
			t.Fatal(err)
		}
		return got, found
	}
	byAddr := func(a netip.Addr) (fleet.Lease, bool) {
		t.Helper()
		got, found, err := l.LeaseByAddr(a)
		if err != nil {
			t.Fatal(err)
		}
		return got, found
	}
	if _, found := byMAC(a); found {
		t.Error("a lease out of nothing")
	}
	expires := s.now().Add(time.Hour)
	save := func(le fleet.Lease) {
		t.Helper()
		if err := l.SaveLease(le); err != nil {
			t.Fatal(err)
		}
	}
	save(fleet.Lease{Addr: seven, MAC: a, Expires: expires})
	save(fleet.Lease{Addr: eight, MAC: a, Expires: expires})
	if got, found := byMAC(a); !found || got.Addr != eight {
		t.Errorf("the later lease replaces the earlier one: %+v", got)
	}
	if _, found := byAddr(seven); found {
		t.Error("a MAC has two leases")
	}
	save(fleet.Lease{Addr: seven, MAC: a, Bad: true, Expires: expires})
	if got, _ := byMAC(a); got.Addr != eight {
		t.Errorf("a declined address is nobody's lease: %+v", got)
	}
	// A fixed address belongs to the NIC of the node that took it last, and to no other machine.
	s.update(func(tx *registry.Tx) error {
		return tx.CreateNode(
			fleet.Node{Name: "pc1", State: fleet.Adopted, Group: "default", MACs: []fleet.MAC{a, b}, Address: seven},
		)
	})
	for _, m := range []fleet.MAC{a, b} {
		if got, found := byMAC(m); !found || got.Addr != seven || !got.Static || got.Host != "pc1" {
			t.Errorf("fixed address of %s: %+v", m, got)
		}
	}
	if got, _ := byAddr(seven); got.MAC != a || !got.Static || got.Bad {
		t.Errorf("holder of the fixed address: %+v", got)
	}
	save(fleet.Lease{Addr: seven, MAC: b, Static: true, Expires: expires})
	if got, _ := byAddr(seven); got.MAC != b {
		t.Errorf("holder of the fixed address is the NIC that took it: %+v", got)
	}
	s.update(func(tx *registry.Tx) error {
		n, err := tx.Node("pc1")
		if err != nil {
			return err
		}
		n.Address = netip.Addr{}
		return tx.PutNode("pc1", n)
	})
	if got, found := byMAC(b); !found || got.Static || got.Host != "pc1" || !got.Expires.Equal(expires) {
		t.Errorf("given back to the pool: %+v", got)
	}
	s.restart()
	if got, found, err := l.LeaseByAddr(seven); err != nil || !found || got.MAC != b {
		t.Errorf("after a restart: %+v, %v", got, err)
	}
}

func TestDHCPStatus(t *testing.T) {
	s := startSite(t, func(c *Config) {
		c.DHCP = dhcp.Config{
			Mode:    dhcp.Own,
			Subnets: []dhcp.Subnet{{First: netip.MustParseAddr("10.0.0.100"), Last: netip.MustParseAddr("10.0.0.200")}},
		}
	})
	l := recordedLeases{s}
	for n := range byte(95) {
		a := netip.AddrFrom4([4]byte{10, 0, 0, 100 + n})
		if err := l.SaveLease(fleet.Lease{Addr: a, MAC: fleet.MAC{2, 0, 0, 0, 1, n}, Expires: s.now().Add(time.Hour),
			Bad: n < 3}); err != nil {
			t.Fatal(err)
		}
	}
	s.update(func(tx *registry.Tx) error {
		return errors.Join(
			tx.CreateNode(fleet.Node{Name: "pc1", State: fleet.Adopted, Group: "default", MACs: []fleet.MAC{{2, 1}},
				Address: netip.MustParseAddr("10.0.0.200")}),
			tx.CreateNode(fleet.Node{Name: "pc2", State: fleet.Adopted, Group: "default",
				MACs: []fleet.MAC{{2, 0, 0, 0, 1, 50}}}))
	})
	c := operatorOf(t, s)
	st, err := c.Status(t.Context())
	want := api.DHCPAddresses{All: 101, Known: 2, Unknown: 91, InUse: 3}
	if got := st.DHCP; err != nil || got.Mode != "own" || got.Range != "10.0.0.100-10.0.0.200" ||
		got.Addresses != want || got.Addresses.Free() != 5 || !got.Addresses.Short() {
		t.Errorf("%+v, %v", got, err)
	}
	if err := c.DeleteLease(t.Context(), netip.MustParseAddr("10.0.0.120")); err != nil {
		t.Error(err)
	}
	if _, found, err := l.LeaseByAddr(netip.MustParseAddr("10.0.0.120")); found || err != nil {
		t.Errorf("the lease is still there: %v, %v", found, err)
	}
}
