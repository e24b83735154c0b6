package dhcp

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"pando/internal/netboot"
)

var update = flag.Bool("update", false, "rewrite golden files")

// noon is the time of every test.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func ip4(s string) netip.Addr { return netip.MustParseAddr(s) }

// testSubnet is the network of the tests.
func testSubnet() *Subnet {
	return &Subnet{Prefix: netip.MustParsePrefix("10.77.0.0/24"), First: ip4("10.77.0.100"), Last: ip4("10.77.0.200"),
		Routers: []netip.Addr{
			ip4("10.77.0.1"),
		}, DNS: []netip.Addr{ip4("10.77.0.1"), ip4("10.77.0.3")}, NTP: []netip.Addr{ip4("10.77.0.1")},
		Domain: "lab.test", Search: []string{"lab.test", "test"}, LeaseTime: time.Hour}
}

// testView is the view of a server that gives addresses and has no leases.
func testView() View {
	return View{Mode: Own, Server: ip4("10.77.0.1"), Known: true, Subnet: testSubnet(), Base: "http://10.77.0.1:8480",
		Loaders: netboot.Loaders{netboot.ClassBIOS: "undionly.kpxe", netboot.ClassX64: "snponly.efi"}}
}

// TestCapturedPackets: the answers to captured packets as server, as proxy, as proxy with a menu, and on port 4011. The
// packets are from QEMU 7.2 with its iPXE ROMs and OVMF 2022.11, undionly and snponly of Debian 13 (1.21) and 12 (the
// others), and isc-dhcp-client and busybox of Debian 12.
func TestCapturedPackets(t *testing.T) {
	packets, err := filepath.Glob("testdata/packets/*.bin")
	if err != nil || len(packets) == 0 {
		t.Fatal("no packets", err)
	}
	for _, file := range packets {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Parse(b)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		goldenFile(t, strings.TrimSuffix(file, ".bin")+".txt", describe(r))
	}
}

func goldenFile(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update rewrites it):\n%s", file, got)
	}
}

// describe writes who sent a request, and all the answers to it.
func describe(r Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s: %s, architecture %s", messageNames[r.Type], r.MAC, r.Client.Kind, r.Client.Arch)
	if r.Client.Kind == netboot.IPXE {
		fmt.Fprintf(
			&b,
			", version %s, bus id %s, features %x, sufficient %v",
			r.Client.Version,
			r.Client.BusID,
			[]byte(r.Client.Features),
			r.Client.Sufficient(),
		)
	}
	fmt.Fprintf(
		&b,
		"\nuuid %q, host %q, asks for %s, has %s, chose %s\n",
		r.Client.UUID,
		r.HostName,
		dash(r.Requested),
		dash(r.Address),
		dash(r.Server),
	)
	v := testView()
	v.Offer = ip4("10.77.0.150")
	if r.Requested.IsValid() {
		v.Offer = r.Requested
	}
	proxy, menu, boot := v, v, v
	proxy.Mode, menu.Mode, menu.Menu, boot.BootPort = Proxy, Proxy, true, true
	for _, c := range []struct {
		name string
		view View
	}{{"server", v}, {"proxy", proxy}, {"proxy with menu", menu}, {"port 4011", boot}} {
		out := Answer(r, c.view, noon)
		fmt.Fprintf(&b, "\n== %s: %s\n", c.name, out.Seen.Reply)
		if out.Seen.Reason != "" {
			fmt.Fprintf(&b, "reason: %s\n", out.Seen.Reason)
		}
		if out.Save != nil {
			fmt.Fprintf(
				&b,
				"save: %s for %s until %s\n",
				out.Save.Addr,
				out.Save.MAC,
				out.Save.Expires.Format(time.TimeOnly),
			)
		}
		if out.Packet != nil {
			b.WriteString(summary(out.Packet))
		}
	}
	return strings.ReplaceAll(b.String(), "\x00", `\0`)
}

func dash(a netip.Addr) string {
	if !a.IsValid() {
		return "-"
	}
	return a.String()
}

// summary lists what the wire carries, read back from its bytes.
func summary(p *dhcpv4.DHCPv4) string {
	raw := p.ToBytes()
	q, err := dhcpv4.FromBytes(raw)
	if err != nil {
		return "unreadable: " + err.Error() + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d bytes, flags %#x, ciaddr %s, yiaddr %s, siaddr %s, giaddr %s, file %q\n", len(raw), q.Flags,
		q.ClientIPAddr, q.YourIPAddr, q.ServerIPAddr, q.GatewayIPAddr, q.BootFileName)
	for line := range strings.Lines(q.Options.Summary(nil)) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}
