package dhcp

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
	"pando/internal/netboot"
)

const (
	aliceMAC = "52:54:00:00:00:01"
	bobMAC   = "52:54:00:00:00:02"
)

// ownSpec serves 10.77.0.100-200 on br0.
func ownSpec() helperSpec {
	return helperSpec{Config: Config{Mode: Own, Interfaces: []string{"br0"}, Subnets: []Subnet{*testSubnet()}},
		Loaders: netboot.Loaders{netboot.ClassBIOS: "undionly.kpxe", netboot.ClassX64: "snponly.efi"}}
}

func proxySpec() helperSpec {
	s := ownSpec()
	s.Config.Mode, s.Config.Subnets = Proxy, nil
	return s
}

// dhclient runs ISC's client. Its state is in dir, and it changes nothing of the machine.
func (n *netns) dhclient(dir string, args ...string) (string, error) {
	n.t.Helper()
	need(n.t, "dhclient")
	pid := filepath.Join(dir, "pid")
	n.t.Cleanup(func() {
		_, _ = n.try("dhclient", "-x", "-pf", pid, "-lf", filepath.Join(dir, "leases"), "-sf", "/bin/true", "eth0")
	})
	return n.try(
		append(
			[]string{"dhclient", "-4", "-v", "-1", "-lf", filepath.Join(dir, "leases"), "-pf", pid, "-sf", "/bin/true"},
			args...)...)
}

// udhcpc runs busybox's client on eth0 until it has a lease, and gives it the address.
func (n *netns) udhcpc() (netip.Addr, string) {
	n.t.Helper()
	return n.udhcpcOn("eth0")
}

// udhcpcOn is udhcpc on another NIC.
func (n *netns) udhcpcOn(nic string) (netip.Addr, string) {
	n.t.Helper()
	need(n.t, "udhcpc")
	script := filepath.Join(n.t.TempDir(), "script")
	body := "#!/bin/sh\ncase $1 in bound|renew) env; ip addr replace $ip/$mask dev $interface;; esac\n"
	if err := os.WriteFile(script, []byte(body), 0o755); err != nil {
		n.t.Fatal(err)
	}
	out, err := n.try("udhcpc", "-f", "-n", "-q", "-t", "5", "-T", "2", "-i", nic, "-s", script)
	if err != nil {
		return netip.Addr{}, out
	}
	for l := range strings.Lines(out) {
		if a, ok := strings.CutPrefix(l, "ip="); ok {
			return netip.MustParseAddr(strings.TrimSpace(a)), out
		}
	}
	return netip.Addr{}, out
}

// dnsmasq runs the site's DHCP server inside.
func (n *netns) dnsmasq(args ...string) {
	n.t.Helper()
	need(n.t, "dnsmasq")
	dir := n.t.TempDir()
	cmd := n.cmd(
		context.Background(),
		append([]string{"dnsmasq", "-k", "--port=0", "--conf-file=/dev/null", "--log-dhcp", "--no-ping", "--user=root",
			"--dhcp-leasefile=" + dir + "/leases", "--pid-file=" + dir + "/pid", "--log-facility=" + dir + "/log"},
			args...)...)
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 100 { // its log file exists once it listens
		if b, _ := os.ReadFile(dir + "/log"); strings.Contains(string(b), "DHCP") {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	b, _ := os.ReadFile(dir + "/log")
	n.t.Fatalf("dnsmasq did not start: %s", b)
}

func TestDhclient(t *testing.T) {
	t.Parallel()
	net := newNetns(t, "10.77.0.1/24")
	spec := ownSpec()
	spec.Known = []fleet.MAC{alice}
	s := net.serve(spec)
	c := net.client(aliceMAC)
	dir := t.TempDir()
	if out, err := c.dhclient(dir, "eth0"); err != nil || !strings.Contains(out, "bound to 10.77.0.") {
		t.Fatalf("%v: %s", err, out)
	}
	offer, ack := s.seen("DISCOVER", "OFFER"), s.seen("REQUEST", "ACK")
	if offer.Addr != ack.Addr || ack.MAC != alice || ack.Client.Kind != netboot.Other || ack.BootFile != "" ||
		ack.HasAddress() != ack.Addr {
		t.Errorf("offer %+v, ack %+v", offer, ack)
	}
	b, err := os.ReadFile(filepath.Join(dir, "leases"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"subnet-mask 255.255.255.0", "routers 10.77.0.1", "domain-name-servers " +
		"10.77.0.1,10.77.0.3",
		"dhcp-lease-time 3600", "dhcp-server-identifier 10.77.0.1", "ntp-servers " +
			"10.77.0.1", `domain-name "lab.test"`, `domain-search "lab.test.", "test."`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the lease lacks %q:\n%s", want, b)
		}
	}
	// Killed and started again it remembers its address: INIT-REBOOT, no DISCOVER.
	_, _ = c.try(
		"dhclient",
		"-x",
		"-pf",
		filepath.Join(dir, "pid"),
		"-lf",
		filepath.Join(dir, "leases"),
		"-sf",
		"/bin/true",
		"eth0",
	)
	if out, err := c.dhclient(dir, "eth0"); err != nil || strings.Contains(out, "DISCOVER") {
		t.Errorf("%v: %s", err, out)
	}
	if again := s.seen("REQUEST", "ACK"); again.Addr != ack.Addr || again.Server.IsValid() {
		t.Errorf("%+v", again)
	}
}

// A client with a lease of another network gets a NAK at once.
func TestDhclientFromAnotherNetwork(t *testing.T) {
	t.Parallel()
	net := newNetns(t, "10.77.0.1/24")
	s := net.serve(ownSpec())
	c := net.client(aliceMAC)
	dir := t.TempDir()
	lease := `lease {
  interface "eth0";
  fixed-address 192.168.1.77;
  option subnet-mask 255.255.255.0;
  option dhcp-lease-time 86400;
  option dhcp-server-identifier 192.168.1.1;
  renew 0 2040/01/01 00:00:00;
  rebind 0 2040/01/02 00:00:00;
  expire 0 2040/01/03 00:00:00;
}
`
	if err := os.WriteFile(filepath.Join(dir, "leases"), []byte(lease), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := c.dhclient(dir, "eth0")
	if err != nil || !strings.Contains(out, "DHCPNAK") || !strings.Contains(out, "bound to 10.77.0.") {
		t.Errorf("%v: %s", err, out)
	}
	s.seen("REQUEST", "NAK")
	s.seen("REQUEST", "ACK")
}

func TestUdhcpcRenewsAndReleases(t *testing.T) {
	t.Parallel()
	net := newNetns(t, "10.77.0.1/24")
	spec := ownSpec()
	spec.Leases = []fleet.Lease{{Addr: ip4("10.77.0.50"), MAC: alice, Static: true, Host: "pc001"}}
	s := net.serve(spec)
	c := net.client(aliceMAC)
	script := filepath.Join(t.TempDir(), "script")
	body := "#!/bin/sh\ncase $1 in bound|renew) ip addr replace $ip/$mask dev $interface;; esac\n"
	if err := os.WriteFile(script, []byte(body), 0o755); err != nil {
		t.Fatal(err)
	}
	need(t, "udhcpc")
	cmd := c.cmd(t.Context(), "udhcpc", "-f", "-R", "-i", "eth0", "-s", script)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if ack := s.seen("REQUEST", "ACK"); ack.Addr != ip4("10.77.0.50") {
		t.Errorf("fixed address not given: %+v", ack)
	}
	// ip netns exec becomes the program itself, so the signal reaches it. The script may still run: until
	// the address is there the request would be a broadcast.
	for range 100 {
		if out, _ := c.try("ip", "addr", "show", "eth0"); strings.Contains(out, "10.77.0.50/24") {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.host("kill", "-USR1", fmt.Sprint(cmd.Process.Pid))
	if renewed := s.seen("REQUEST", "ACK"); renewed.Server.IsValid() || renewed.Requested != ip4("10.77.0.50") {
		t.Errorf("renewing: %+v", renewed)
	}
	c.host("kill", "-TERM", fmt.Sprint(cmd.Process.Pid))
	s.seen("RELEASE", "")
}

// The probe finds an address that another machine uses, and the server does not offer it.
func TestProbeFindsUnknownMachine(t *testing.T) {
	t.Parallel()
	net := newNetns(t, "10.77.0.1/24")
	s := net.serve(ownSpec())
	taken := derived(testSubnet(), alice)
	unknownMachine := net.client(bobMAC)
	unknownMachine.run("ip", "addr", "add", taken.String()+"/24", "dev", "eth0")
	a, out := net.client(aliceMAC).udhcpc()
	if !a.IsValid() || a == taken {
		t.Fatalf("got %s: %s", a, out)
	}
	s.logged(`"ERROR"`, "in use", taken.String(), bobMAC)
}

// Without probes the client finds the other machine itself and declines.
func TestDecline(t *testing.T) {
	net := newNetns(t, "10.77.0.1/24")
	spec := ownSpec()
	spec.Config.NoProbe = true
	s := net.serve(spec)
	taken := derived(testSubnet(), alice)
	net.client(bobMAC).run("ip", "addr", "add", taken.String()+"/24", "dev", "eth0")
	c := net.client(aliceMAC)
	need(t, "udhcpc")
	cmd := c.cmd(t.Context(), "udhcpc", "-f", "-q", "-a", "-A", "1", "-i", "eth0", "-s", "/bin/true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	s.seen("DECLINE", "")
	if ack := s.seen("REQUEST", "ACK"); ack.Addr == taken {
		t.Errorf("given again: %+v", ack)
	}
}

// Two interfaces, two networks, one server.
func TestTwoInterfaces(t *testing.T) {
	t.Parallel()
	net := newNetns(t, "10.77.0.1/24")
	net.run("ip", "link", "add", "left", "address", "52:54:00:00:09:01", "type", "veth", "peer", "name", "right")
	other := &netns{t: t, name: net.name + "b"}
	net.host("ip", "netns", "add", other.name)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", other.name).Run() })
	net.run("ip", "link", "set", "right", "netns", other.name, "name", "eth0")
	net.run("ip", "addr", "add", "10.78.0.1/24", "dev", "left")
	net.run("ip", "link", "set", "left", "up")
	other.run("ip", "link", "set", "eth0", "up")
	spec := ownSpec()
	second := *testSubnet()
	second.Prefix, second.First, second.Last = netip.MustParsePrefix(
		"10.78.0.0/24",
	), ip4(
		"10.78.0.10",
	), ip4(
		"10.78.0.20",
	)
	spec.Config.Interfaces = append(spec.Config.Interfaces, "left")
	spec.Config.Subnets = append(spec.Config.Subnets, second)
	s := net.serve(spec)
	if a, out := other.udhcpc(); !second.inRange(a) {
		t.Errorf("got %s: %s", a, out)
	}
	if a, out := net.client(aliceMAC).udhcpc(); !testSubnet().inRange(a) {
		t.Errorf("got %s: %s", a, out)
	}
	if got := s.seen("REQUEST", "ACK"); got.Interface != "left" {
		t.Errorf("%+v", got)
	}
}

func TestPortTaken(t *testing.T) {
	net := newNetns(t, "10.77.0.1/24")
	net.serve(ownSpec())
	out, err := net.helperFails(proxySpec())
	if err == nil || !strings.Contains(out, "port 67 on br0 is taken") {
		t.Errorf("%v: %s", err, out)
	}
}
