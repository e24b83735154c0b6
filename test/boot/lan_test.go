package boot

import (
	"context"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// Beside the site's own DHCP server Pando gives boot answers only, and no address.
func TestRealBootBesideAnotherDHCPServer(t *testing.T) {
	needBoot(t)
	network, err := testkit.NewNet("boot", netip.MustParsePrefix(subnet))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logError(t, network.Close()) })
	nodes := []node{
		{"bios", fleet.MAC{0x52, 0x54, 0, 3, 0, 1}, testkit.BIOS, bookworm, ""},
		{"uefi", fleet.MAC{0x52, 0x54, 0, 3, 0, 2}, testkit.UEFI, trixie, ""},
	}
	addrs := []string{"10.77.0.51", "10.77.0.52"}
	runDnsmasq(t, network, "--dhcp-range=10.77.0.50,10.77.0.99", "--dhcp-option=option:router,10.77.0.2",
		"--dhcp-host="+nodes[0].mac.String()+","+addrs[0], "--dhcp-host="+nodes[1].mac.String()+","+addrs[1])
	s := newSiteIn(t, network, "proxy")
	for i, n := range nodes {
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			s := *s
			s.t = t
			s.boot(n)
			s.prove(n, s.shellAt(n, netip.MustParseAddr(addrs[i])))
		})
	}
}

// runDnsmasq is the site's DHCP server: another machine on the same wire, 10.77.0.2.
func runDnsmasq(t *testing.T, wire *testkit.Net, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("dnsmasq"); err != nil {
		t.Skip("dnsmasq is not installed")
	}
	other, err := testkit.NewNet("bootdhcp", netip.MustParsePrefix("10.78.0.1/24"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logError(t, other.Close()) })
	if err := wire.Veth(other, "lan0"); err != nil {
		t.Fatal(err)
	}
	if err := other.IP("addr", "add", "10.77.0.2/24", "dev", "lan0"); err != nil {
		t.Fatal(err)
	}
	c := other.Command(context.Background(), "dnsmasq", append([]string{"--no-daemon", "--conf-file=/dev/null", "--port=0",
		"--user=root", "--interface=lan0", "--bind-dynamic", "--dhcp-leasefile=" + t.TempDir() + "/leases"}, args...)...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		logError(t, c.Process.Signal(unix.SIGTERM))
		_ = c.Wait() // its status is that of a program that was told to end
	})
}

// Under the policy approve an unknown machine waits, says so, and boots when an operator adopts it.
func TestRealBootWaitsForApproval(t *testing.T) {
	needBoot(t)
	s := newSite(t, "own")
	if _, err := s.API.SetPolicy(t.Context(), api.Policy{Adoption: fleet.Approve, Naming: "pc[001-]"}); err != nil {
		t.Fatal(err)
	}
	n := node{"pc007", fleet.MAC{0x52, 0x54, 0, 4, 0, 1}, testkit.BIOS, trixie, ""}
	m, booted := s.powerOn(n)
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	if _, err := m.Console.Wait(ctx, "waits"); err != nil {
		t.Fatal(err)
	}
	nodes, err := s.API.Nodes(ctx, "")
	if err != nil || len(nodes) != 1 || nodes[0].State != fleet.Discovered || nodes[0].MACs[0] != n.mac {
		t.Fatalf("nodes while it waits: %+v, %v", nodes, err)
	}
	if _, err := s.API.AdoptNodes(ctx, api.NodeAdopt{Select: n.mac.String(), Name: n.name, Group: &n.group}); err != nil {
		t.Fatal(err)
	}
	s.waitUp(n, m)
	booted()
	s.prove(n, s.shell(n))
}

// The server ends while a node boots and comes back; the node goes on where it was.
func TestRealBootOutlivesAServerRestart(t *testing.T) {
	needBoot(t)
	s := newSite(t, "own")
	n := node{"pc001", fleet.MAC{0x52, 0x54, 0, 5, 0, 1}, testkit.BIOS, bookworm, ""}
	s.announce(n)
	m, booted := s.powerOn(n)
	first := s.waitEvent(n.name, m, reached(trace.Init))
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	// Long enough that requests fail and are tried again.
	select {
	case <-time.After(20 * time.Second):
	case <-m.Done():
		t.Fatal("the machine ended with its server")
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.waitUp(n, m)
	booted()
	b, err := s.API.NodeBoot(t.Context(), n.name)
	if err != nil {
		t.Fatal(err)
	}
	if b.ID != first.Boot {
		t.Errorf("boot %s became boot %s: the node began anew", first.Boot, b.ID)
	}
	g := s.shell(n)
	s.noErrors(n, g)
	s.run(g, "test \"$(systemctl is-system-running --wait)\" = running")
}
