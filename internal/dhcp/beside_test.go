package dhcp

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"pando/internal/netboot"
)

// site is a network with a DHCP server of its own: dnsmasq on 10.77.0.2, giving 10.77.0.50 to 90.
func site(n *netns, args ...string) *netns {
	d := n.client("52:54:00:00:00:99")
	d.run("ip", "addr", "add", "10.77.0.2/24", "dev", "eth0")
	d.dnsmasq(
		append(
			[]string{
				"--interface=eth0",
				"--bind-interfaces",
				"--dhcp-authoritative",
				"--dhcp-range=10.77.0.50,10.77.0.90,1h",
			},
			args...)...)
	return d
}

// hurry is the time between two questions for other servers in tests with two servers. A server that a busy machine
// delays by less than four times hurry does not count as gone.
const hurry = 500 * time.Millisecond

// replayed sends a captured packet from a client and returns the answer.
func replayed(c *netns, packet, to string) []answered {
	c.t.Helper()
	file, err := filepath.Abs("testdata/packets/" + packet + ".bin")
	if err != nil {
		c.t.Fatal(err)
	}
	s := c.serve(
		helperSpec{Config: Config{Interfaces: []string{"eth0"}}, Send: file, SendTo: to, LookFor: 2 * time.Second},
	)
	var out []answered
	for _, l := range s.rest() {
		if l.Error != "" {
			c.t.Fatal(l.Error)
		}
		if l.Answer != nil {
			out = append(out, *l.Answer)
		}
	}
	return out
}

func TestProxyBesideDnsmasq(t *testing.T) {
	t.Parallel()
	net := newNetns(t, "10.77.0.1/24")
	s := net.serve(proxySpec())
	site(net)

	// An operating system's client gets its address from the site's server, and nothing from Pando.
	if out, err := net.client(aliceMAC).dhclient(t.TempDir(), "eth0"); err != nil ||
		!strings.Contains(out, "from 10.77.0.2") ||
		strings.Contains(out, "from 10.77.0.1") {
		t.Errorf("%v: %s", err, out)
	}
	took := s.until(
		"a request",
		10*time.Second,
		func(l line) bool { return l.Seen != nil && l.Seen.Message == "REQUEST" },
	).Seen
	if took.Reply != "" || took.Server != ip4("10.77.0.2") || took.HasAddress() != took.Requested {
		t.Errorf("%+v", took)
	}

	// Firmware gets the address from the site's server and the boot file from Pando.
	tests := []struct{ packet, file, class string }{
		{"ovmf-pxe-discover", "snponly.efi", "PXEClient"},
		{"ovmf-http-discover", "http://10.77.0.1:8480/boot/file/snponly.efi", "HTTPClient"},
		{
			"undionly-discover",
			"http://10.77.0.1:8480/boot/script",
			"PXEClient",
		}, // requests a broadcast, as all three do
	}
	c := net.client(bobMAC)
	for _, tt := range tests {
		var fromUs, fromSite bool
		for _, a := range replayed(c, tt.packet, "") {
			switch a.Server {
			case ip4("10.77.0.1"):
				fromUs = a.Type == "OFFER" && !a.Addr.IsValid() && a.File == tt.file && a.Class == tt.class
			case ip4("10.77.0.2"):
				fromSite = a.Type == "OFFER" && a.Addr.IsValid() && a.File == ""
			}
		}
		if !fromUs || !fromSite {
			t.Errorf("%s: from us %v, from the site %v", tt.packet, fromUs, fromSite)
		}
	}

	// Port 4011 answers a firmware that has its address.
	c.run("ip", "addr", "add", "10.77.0.83/24", "dev", "eth0")
	got := replayed(c, "ovmf-boot-service-request", "10.77.0.1:4011")
	if len(got) != 1 || got[0].Type != "ACK" || got[0].File != "snponly.efi" || got[0].Addr.IsValid() {
		t.Errorf("port 4011: %+v", got)
	}
}

func TestLook(t *testing.T) {
	t.Parallel()
	net := newNetns(t, "10.77.0.1/24")
	look := helperSpec{Config: Config{Interfaces: []string{"br0"}}, Look: true, LookFor: 1500 * time.Millisecond}
	found := func() (out []Found) {
		for _, l := range net.serve(look).rest() {
			if l.Error != "" {
				t.Fatal(l.Error)
			}
			if l.Found != nil {
				out = append(out, *l.Found)
			}
		}
		return out
	}
	if got := found(); len(got) != 0 {
		t.Errorf("nobody is there, found %+v", got)
	}
	// Another Pando finds this server.
	other := net.client("52:54:00:00:00:98")
	other.run("ip", "addr", "add", "10.77.0.3/24", "dev", "eth0")
	spec := ownSpec()
	spec.Config.Interfaces = []string{"eth0"}
	other.serve(spec)
	if got := found(); len(got) != 1 || got[0].Server != ip4("10.77.0.3") || !testSubnet().inRange(got[0].Offers) ||
		got[0].Proxy ||
		got[0].Interface != "br0" {
		t.Errorf("found %+v", got)
	}
	// This server gives addresses, so it is no proxy. A proxy beside the site's server is found too.
	beside := net.client("52:54:00:00:00:97")
	beside.run("ip", "addr", "add", "10.77.0.4/24", "dev", "eth0")
	spec = proxySpec()
	spec.Config.Interfaces = []string{"eth0"}
	beside.serve(spec)
	got := found()
	if len(got) != 2 || got[1].Server != ip4("10.77.0.4") || !got[1].Proxy || got[1].Pando != "" ||
		got[0].Pando == "" {
		t.Errorf("found %+v", got)
	}
	// It finds the site's server.
	site(net)
	look.LookFor = 5 * time.Second // the site's server pings an address before it offers it
	if got := found(); len(got) == 0 || got[0].Server != ip4("10.77.0.2") || !got[0].Offers.IsValid() ||
		got[0].Pando != "" {
		t.Errorf("found %+v", got)
	}
}

// standing waits until a server stops or resumes giving addresses.
func (s *served) standing(gives bool, limit time.Duration) State {
	s.t.Helper()
	l := s.until(fmt.Sprintf("gives addresses: %v", gives), limit, func(l line) bool {
		return l.State != nil && l.State.StoppedFor.IsValid() != gives
	})
	return *l.State
}

// While another server answers, this one gives no new addresses and logs an error; renewals and boot files go on. When
// the other one is gone, this one gives new addresses again by itself.
func TestStopsAndComesBack(t *testing.T) {
	t.Parallel()
	net := newNetns(t, "10.77.0.1/24")
	spec := ownSpec()
	spec.Hurry = hurry
	s := net.serve(spec)
	c := net.client(aliceMAC)
	mine, out := c.udhcpc()
	if !testSubnet().inRange(mine) {
		t.Fatalf("got %s: %s", mine, out)
	}
	other := site(net, "--no-ping")
	st := s.standing(false, 20*time.Second)
	if st.StoppedFor != ip4("10.77.0.2") || st.Mode != Proxy || len(st.Others) != 1 {
		t.Errorf("state %+v", st)
	}
	s.logged(`"ERROR"`, "stopped giving addresses")
	carol := net.client("52:54:00:00:00:03")
	for _, a := range replayed(carol, "dhclient-discover", "") {
		if a.Server == ip4("10.77.0.1") {
			t.Errorf("an address is offered: %+v", a)
		}
	}
	fromUs := netip.Addr{}
	for _, a := range replayed(carol, "ovmf-pxe-discover", "") {
		if a.Server == ip4("10.77.0.1") && a.File == "snponly.efi" && !a.Addr.IsValid() {
			fromUs = a.Server
		}
	}
	if !fromUs.IsValid() {
		t.Error("no boot file is told any more")
	}
	for _, l := range s.drain() {
		if l.Seen != nil && l.Seen.Client.Kind == netboot.Other && l.Seen.MAC != bob && l.Seen.MAC != alice &&
			l.Seen.Reply == "OFFER" {
			t.Errorf("offered: %+v", l.Seen)
		}
	}
	other.run("ip", "link", "set", "eth0", "down")
	if st := s.standing(true, 20*time.Second); st.Mode != Own || len(st.Others) != 0 {
		t.Errorf("state %+v", st)
	}
	s.logged("giving addresses again")
	if a, out := net.client(bobMAC).udhcpc(); !testSubnet().inRange(a) {
		t.Errorf("got %s: %s", a, out)
	}
}

// Forged packets do not stop a server: neither requests that name another server, nor unsolicited answers.
func TestForgedServerStopsNothing(t *testing.T) {
	t.Parallel()
	net := newNetns(t, "10.77.0.1/24")
	spec := ownSpec()
	spec.Hurry = hurry
	s := net.serve(spec)
	c := net.client(aliceMAC)
	ack, err := dhcpv4.New(dhcpv4.WithMessageType(dhcpv4.MessageTypeAck), dhcpv4.WithHwAddr(alice[:]),
		chose("10.77.0.66"), dhcpv4.WithYourIP(ip(ip4("10.77.0.50"))))
	if err != nil {
		t.Fatal(err)
	}
	ack.OpCode = dhcpv4.OpcodeBootReply
	other := asked(t, alice, dhcpv4.MessageTypeRequest, requested("10.77.0.50"), chose("10.77.0.66")).packet
	for range 3 {
		c.forge(t, other, ServerPort)
		c.forge(t, ack, clientPort)
		time.Sleep(hurry * 3 / 2)
	}
	if a, out := net.client(bobMAC).udhcpc(); !testSubnet().inRange(a) {
		t.Errorf("got %s: %s", a, out)
	}
	for _, l := range s.drain() {
		if l.State != nil {
			t.Errorf("%+v, %+v", l.Found, l.State)
		}
	}
}

// forge broadcasts a packet to a port.
func (n *netns) forge(t *testing.T, p *dhcpv4.DHCPv4, port int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "packet")
	if err := os.WriteFile(file, p.ToBytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	n.serve(helperSpec{Config: Config{Interfaces: []string{"eth0"}}, Send: file,
		SendTo: fmt.Sprintf("255.255.255.255:%d", port), LookFor: time.Millisecond}).rest()
}

// Of two servers that start at the same moment exactly one gives addresses: the one with the lower address. A server
// that starts later does not, whatever its address.
func TestOneOfTwoStays(t *testing.T) {
	t.Parallel()
	net := newNetns(t, "10.77.0.2/24")
	spec := ownSpec()
	spec.Hurry = hurry
	at := func(mac, addr string) (*netns, helperSpec) {
		c := net.client(mac)
		c.run("ip", "addr", "add", addr+"/24", "dev", "eth0")
		own := spec
		own.Config.Interfaces = []string{"eth0"}
		return c, own
	}
	c, own := at("52:54:00:00:00:98", "10.77.0.3")
	lower := net.serve(spec)
	higher := c.serve(own)
	if st := higher.standing(false, 20*time.Second); st.StoppedFor != ip4("10.77.0.2") {
		t.Errorf("state %+v", st)
	}
	lower.logged("another Pando gives addresses on this network")
	time.Sleep(3 * hurry)
	for _, l := range lower.drain() {
		if l.State != nil && l.State.StoppedFor.IsValid() {
			t.Errorf("the lower one stopped too: %+v", l.State)
		}
	}
	c, own = at("52:54:00:00:00:97", "10.77.0.1")
	late := c.serve(own)
	if st := late.standing(false, 20*time.Second); st.StoppedFor != ip4("10.77.0.2") {
		t.Errorf("state %+v", st)
	}
	if a, out := net.client(bobMAC).udhcpc(); !testSubnet().inRange(a) || !strings.Contains(out, "serverid=10.77.0.2") {
		t.Errorf("got %s: %s", a, out)
	}
	// The server that gave addresses ends: exactly one of the other two resumes.
	lower.stop()
	gave, other := late, higher
	if st := gave.standing(true, 30*time.Second); st.Mode != Own {
		t.Errorf("state %+v", st)
	}
	time.Sleep(8 * hurry)
	gives := func(s *served) (gives bool) {
		for _, l := range s.drain() {
			if l.State != nil {
				gives = !l.State.StoppedFor.IsValid()
			}
		}
		return gives
	}
	if gives(gave) == gives(other) {
		t.Errorf("both give addresses, or none: %v", gives(gave))
	}
}

// A relay agent (dnsmasq) brings clients of another network.
func TestRelay(t *testing.T) {
	t.Parallel()
	net := newNetns(t, "10.77.0.1/24")
	net.run("ip", "route", "add", "10.88.0.0/24", "via", "10.77.0.254")
	relay := net.client("52:54:00:00:00:fe")
	relay.run("ip", "addr", "add", "10.77.0.254/24", "dev", "eth0")
	c := &netns{t: t, name: net.name + "r"}
	net.host("ip", "netns", "add", c.name)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", c.name).Run() })
	relay.run("ip", "link", "add", "far", "type", "veth", "peer", "name", "eth0", "address", aliceMAC, "netns", c.name)
	relay.run("ip", "addr", "add", "10.88.0.1/24", "dev", "far")
	relay.run("ip", "link", "set", "far", "up")
	c.run("ip", "link", "set", "eth0", "up")
	relay.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
	relay.dnsmasq("--dhcp-relay=10.88.0.1,10.77.0.1")

	spec := ownSpec()
	far := *testSubnet()
	far.Prefix, far.First, far.Last, far.Routers = netip.MustParsePrefix(
		"10.88.0.0/24",
	), ip4(
		"10.88.0.100",
	), ip4(
		"10.88.0.200",
	), []netip.Addr{
		ip4("10.88.0.1"),
	}
	spec.Config.Subnets = append(spec.Config.Subnets, far)
	s := net.serve(spec)
	a, out := c.udhcpc()
	if !far.inRange(a) || !strings.Contains(out, "router=10.88.0.1") {
		t.Fatalf("got %s: %s", a, out)
	}
	if ack := s.seen("REQUEST", "ACK"); ack.Relay != ip4("10.88.0.1") || ack.MAC != alice {
		t.Errorf("%+v", ack)
	}
}
