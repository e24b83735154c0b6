package boot

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// Beside the site's own DHCP server Pando sends only boot answers and gives no addresses.
func TestRealBootBesideAnotherDHCPServer(t *testing.T) {
	needBoot(t)
	network := newNet(t)
	nodes := []node{
		{name: "bios", mac: fleet.MAC{0x52, 0x54, 0, 3, 0, 1}, firmware: testkit.BIOS, group: bookworm},
		{name: "uefi", mac: fleet.MAC{0x52, 0x54, 0, 3, 0, 2}, firmware: testkit.UEFI, group: trixie},
	}
	addrs := []string{"10.77.0.51", "10.77.0.52"}
	runDnsmasq(t, network, "--dhcp-range=10.77.0.50,10.77.0.99", "--dhcp-option=option:router,10.77.0.2",
		"--dhcp-option=option:dns-server,10.77.0.53", "--dhcp-option=option:domain-name,lab.example",
		"--dhcp-host="+nodes[0].mac.String()+","+addrs[0], "--dhcp-host="+nodes[1].mac.String()+","+addrs[1])
	s := newSiteIn(t, network, base, "proxy")
	for i, n := range nodes {
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			s := *s
			s.t = t
			s.boot(n)
			g := s.shellAt(n, netip.MustParseAddr(addrs[i]))
			s.prove(n, g)
			s.resolvers(n, g, "search lab.example\nnameserver 10.77.0.53")
		})
	}
}

// runDnsmasq starts the site's DHCP server on another host of the same network, 10.77.0.2.
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
	c := other.Command(
		context.Background(),
		"dnsmasq",
		append([]string{"--no-daemon", "--conf-file=/dev/null", "--port=0",
			"--user=root", "--interface=lan0", "--bind-dynamic", "--dhcp-leasefile=" + t.TempDir() + "/leases"},
			args...)...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		logError(t, c.Process.Signal(unix.SIGTERM))
		_ = c.Wait() // the status is that of a killed program
	})
}

// powerOnUnknown switches an unknown machine on. It waits, says so, and continues when it is adopted.
func (s *site) powerOnUnknown(n node) (m *testkit.Machine, booted func()) {
	s.t.Helper()
	policy := api.Policy{Adoption: fleet.Approve, Naming: "pc[001-]"}
	if _, err := s.API.SetPolicy(s.t.Context(), policy); err != nil {
		s.t.Fatal(err)
	}
	m, booted = s.powerOn(n)
	ctx, cancel := context.WithTimeout(s.t.Context(), stepTimeout)
	defer cancel()
	if _, err := m.Console.Wait(ctx, "waits"); err != nil {
		s.t.Fatal(err)
	}
	nodes, err := s.API.Nodes(ctx, "")
	if err != nil || len(nodes) != 1 || nodes[0].State != fleet.Discovered || nodes[0].MACs[0] != n.mac {
		s.t.Fatalf("nodes while it waits: %+v, %v", nodes, err)
	}
	adopt := api.NodeAdopt{Select: n.mac.String(), Name: n.name, Group: &n.group}
	if _, err := s.API.AdoptNodes(ctx, adopt); err != nil {
		s.t.Fatal(err)
	}
	return m, booted
}

// bootOverRestarts switches a node on. The server ends while it sends the kernel, while it sends the initramfs, and
// while /init works, and is restarted each time. The node continues the same boot.
func (s *site) bootOverRestarts(n node) *testkit.Machine {
	s.t.Helper()
	m, booted := s.powerOn(n)
	begun := s.killSending(n, m, trace.Kernel, 1)
	s.killSending(n, m, trace.Initramfs, 2)
	first := s.waitEvent(n.name, m, reached(trace.Init))
	if first.Boot != begun {
		s.t.Errorf("boot %s became boot %s before /init", begun, first.Boot)
	}
	if err := s.Kill(); err != nil {
		s.t.Fatal(err)
	}
	// Long enough for requests to fail and be repeated.
	select {
	case <-time.After(20 * time.Second):
	case <-m.Done():
		s.t.Fatal("the machine ended with its server")
	}
	if err := s.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.waitUp(n, m)
	booted()
	b, err := s.API.NodeBoot(s.t.Context(), n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	if b.ID != first.Boot {
		s.t.Errorf("boot %s became boot %s: the node began another boot", first.Boot, b.ID)
	}
	return m
}

// gaveUp is the script's message when a part of K did not arrive.
const gaveUp = "kernel or initramfs did not arrive"

// killSending kills the server while it sends a part of K, and restarts it when the machine has noticed for the
// count-th time. The machine is frozen meanwhile, so that nothing more is sent.
func (s *site) killSending(n node, m *testkit.Machine, stage trace.Stage, count int) fleet.BootID {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), bootTimeout)
	defer cancel()
	begin := s.lastOf(ctx, n, stage)
	for begin.Kind != trace.Begin {
		s.pause(ctx, m, stage)
		begin = s.lastOf(ctx, n, stage)
	}
	if err := m.Freeze(ctx); err != nil {
		s.t.Fatal(err)
	}
	if e := s.lastOf(ctx, n, stage); e.Kind != trace.Begin {
		s.t.Fatalf("the %s was sent before the server could be killed: %+v", stage, e)
	}
	if err := errors.Join(s.Kill(), m.Thaw(ctx)); err != nil {
		s.t.Fatal(err)
	}
	for noticed := 0; noticed < count; {
		s.pause(ctx, m, stage)
		text, err := m.Console.Text()
		if err != nil {
			s.t.Fatal(err)
		}
		noticed = strings.Count(text, gaveUp)
	}
	if err := s.Start(ctx); err != nil {
		s.t.Fatal(err)
	}
	return begin.Boot
}

// pause waits between two checks of a machine's progress.
func (s *site) pause(ctx context.Context, m *testkit.Machine, stage trace.Stage) {
	s.t.Helper()
	select {
	case <-time.After(20 * time.Millisecond):
	case <-m.Done():
		s.t.Fatalf("the machine ended at stage %s", stage)
	case <-ctx.Done():
		s.t.Fatalf("stage %s: %v\nconsole:\n%s", stage, ctx.Err(), m.Console.Tail(25))
	}
}

// lastOf returns the latest event of a stage in a node's latest boot, the zero event if there is none.
func (s *site) lastOf(ctx context.Context, n node, stage trace.Stage) (last trace.Event) {
	s.t.Helper()
	b, err := s.API.NodeBoot(ctx, n.name)
	if err != nil && !api.IsCode(err, api.NotFound) {
		s.t.Fatal(err)
	}
	for _, e := range b.Events {
		if e.Stage == stage {
			last = e
		}
	}
	return last
}
