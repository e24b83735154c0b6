package hostcheck

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/dhcp"
	"pando/internal/fleet"
)

// procDir makes a /proc with one process that has sockets on UDP 67 (IPv4) and TCP 8480 (IPv6, listening), and a
// connection whose port is 8443.
func procDir(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	head := "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	files := map[string]string{
		"net/udp": head + "  10: 00000000:0043 00000000:0000 07 00000000:00000000 00:00000000 00000000     0      " +
			"  0 111 2 0 0\n",
		"net/tcp": head + "   0: 0100007F:20FB 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0      " +
			"  0 333 1 0 0\n",
		"net/tcp6": head + "   0: 00000000000000000000000000000000:2120 00000000000000000000000000000000:0000 0A " +
			"00000000:00000000 00:00000000 00000000     0        0 222 1 0 0\n",
		"77/comm":   name + "\n",
		"77/fd/.x":  "",
		"78/comm":   "other\n",
		"78/fd/.x":  "",
		"self/comm": "x",
	}
	for f, text := range files {
		path := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for fd, inode := range map[string]string{"77/fd/3": "111", "77/fd/4": "222", "78/fd/3": "999"} {
		if err := os.Symlink("socket:["+inode+"]", filepath.Join(dir, fd)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func texts(fs []Finding) string {
	var b strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&b, "%s: %s\n", f.Level, f.Message)
	}
	return b.String()
}

func TestPorts(t *testing.T) {
	got := texts(checkPorts(procDir(t, "dnsmasq"), usualPorts()))
	want := "problem: port 67/udp (DHCP) is taken by dnsmasq (pid 77)\nproblem: port 8480/tcp (boot files and " +
		"images) is taken by dnsmasq (pid 77)\n"
	if got != want {
		t.Errorf("got %s", got)
	}
	if got := texts(checkPorts(procDir(t, "pando"), usualPorts())); got != "ok: a Pando "+
		"server runs and holds its ports\n" {
		t.Errorf("our own server: %s", got)
	}
	if got := texts(checkPorts(t.TempDir(), usualPorts())); !strings.HasPrefix(
		got,
		"note: cannot see",
	) {
		t.Errorf("no /proc: %s", got)
	}
}

// If a server runs, its ports are checked instead of the usual ones.
func TestPortsOfTheServer(t *testing.T) {
	own := api.Status{Ports: []api.Port{{Net: "tcp", Number: 9000, Use: "boot files and images"}}}
	got := texts(checkPorts(procDir(t, "dnsmasq"), portsOf(own, Options{})))
	if got != "ok: 9000/tcp are free\n" {
		t.Errorf("got %s", got)
	}
}

func TestDHCPFindings(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.66")
	own := func(change func(*api.DHCP)) api.DHCP {
		d := api.DHCP{Mode: "own", Interfaces: []string{"eth1"}, Addresses: api.DHCPAddresses{All: 100, Known: 50}}
		change(&d)
		return d
	}
	gives := own(func(*api.DHCP) {})
	for _, k := range []struct {
		found []dhcp.Found
		want  string
		own   api.DHCP
	}{
		{nil, "ok: this server gives addresses on eth1, and no other one answers\n", gives},
		{[]dhcp.Found{{Server: a, Offers: b}}, "warning: this server gives addresses on eth1, and another DHCP " +
			"server answers: 10.0.0.1\n", gives},
		{nil, "warning: this server stopped giving addresses: DHCP server 10.0.0.1 answers on eth1\n",
			own(func(d *api.DHCP) { d.StoppedFor = "10.0.0.1" })},
		{nil, "warning: 4 of 100 addresses are free (90 of nodes, 4 of unknown machines, 2 in use by others)\n" +
			"ok: this server gives addresses on eth1, and no other one answers\n",
			own(func(d *api.DHCP) { d.Addresses = api.DHCPAddresses{All: 100, Known: 90, Unknown: 4, InUse: 2} })},
		{[]dhcp.Found{{Server: a, Offers: b, Pando: "pando-settled"}}, "ok: DHCP server 10.0.0.1 (a Pando) answers " +
			"on eth1: Pando works beside it (--dhcp proxy)\n", api.DHCP{}},
		{nil, "ok: no DHCP server answers on eth1: use --dhcp own, or one of the site's\n", api.DHCP{}},
		{[]dhcp.Found{{Server: a, Offers: b}}, "ok: DHCP server 10.0.0.1 answers on eth1: Pando works beside it " +
			"(--dhcp proxy)\n", api.DHCP{}},
		{[]dhcp.Found{{Server: a, Offers: b}, {Server: b, Offers: a}}, "warning: 2 DHCP servers answer on eth1: " +
			"10.0.0.1 10.0.0.66\n", api.DHCP{}},
		{[]dhcp.Found{{Server: a, Offers: b}, {Server: b, Proxy: true}}, "ok: DHCP server 10.0.0.1 answers on " +
			"eth1: Pando works beside it (--dhcp proxy)\n" +
			"warning: another network boot server (proxyDHCP) answers on eth1: 10.0.0.66\n", api.DHCP{}},
	} {
		if got := texts(dhcpFindings("eth1", k.found, k.own)); got != k.want {
			t.Errorf("%v: %s", k.found, got)
		}
	}
}

func TestNICFindings(t *testing.T) {
	node := func(name string, missing ...string) api.Node {
		return api.Node{Node: fleet.Node{Name: name}, Hardware: &fleet.Hardware{Missing: missing}}
	}
	got := nicFindings([]api.Node{node("pc1", "pci:b", "pci:a"), node("pc2", "pci:a"), node("pc3"), {}})
	want := "warning: pc1, pc2: the image has no driver for NIC pci:a\nwarning: pc1: the image " +
		"has no driver for NIC pci:b\n"
	if texts(got) != want {
		t.Errorf("got %s", texts(got))
	}
}

// TestNeighbours: a server with more nodes than its neighbour table holds is told how to enlarge the table.
func TestNeighbours(t *testing.T) {
	for _, k := range []struct {
		room, nodes int
		level       Level
	}{{1024, 30, Fine}, {1024, 768, Fine}, {1024, 769, Warning}, {16384, 10000, Fine}, {0, 1, Warning}} {
		got := neighbourFindings(k.room, k.nodes)
		if len(got) != 1 || got[0].Level != k.level {
			t.Errorf("room for %d, %d nodes: %s", k.room, k.nodes, texts(got))
		}
	}
	proc := t.TempDir()
	file := filepath.Join(proc, neighbourBound)
	for text, level := range map[string]Level{"": note, "many\n": note, "1024\n": Fine} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		env := new(cmdenv.Env)
		if got := checkNeighbours(env, t.Context(), Options{Proc: proc, Data: t.TempDir()}); len(got) != 1 ||
			got[0].Level != level {
			t.Errorf("%q: %s", text, texts(got))
		}
	}
}

func TestBootFilesAndClock(t *testing.T) {
	dir := t.TempDir()
	o := Options{BootFiles: dir, Data: dir}
	if got := checkBootFiles(t.Context(), o); got[0].Level != Problem {
		t.Errorf("no boot files: %+v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "undionly.kpxe"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := texts(checkBootFiles(t.Context(), o)); !strings.HasPrefix(
		got,
		"warning: no boot loader for UEFI machines",
	) {
		t.Errorf("BIOS only: %s", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "snponly.efi"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := checkBootFiles(t.Context(), o); got[0].Level != Fine {
		t.Errorf("both: %+v", got)
	}
	future := filepath.Join(dir, "registry.db")
	if err := os.WriteFile(future, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(future, time.Time{}, time.Now().Add(48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := checkClock(t.Context(), o); got[0].Level != Problem || got[0].Fix == "" {
		t.Errorf("a clock two days behind: %+v", got)
	}
}

// TestEveryProblemSaysHowToFixIt: every problem and warning has a hint.
func TestEveryProblemSaysHowToFixIt(t *testing.T) {
	var all []Finding
	all = append(all, checkPorts(procDir(t, "x"), usualPorts())...)
	all = append(all, checkInterface(t.Context(), Options{Interface: "nosuch0"})...)
	all = append(all, checkBootFiles(t.Context(), Options{BootFiles: "/nosuch"})...)
	all = append(all, checkTools(t.Context(), Options{Agent: "/nosuch"})...)
	all = append(all, firewallFindings("eth1", []*try{{Port: usualPorts()[1]}, {Port: usualPorts()[1], block: 1}})...)
	all = append(all, nicFindings([]api.Node{{Hardware: &fleet.Hardware{Missing: []string{"pci:a"}}}})...)
	all = append(all, neighbourFindings(1024, 2000)...)
	for _, f := range all {
		if Rank(f.Level) >= Rank(Warning) && f.Fix == "" {
			t.Errorf("%s: %s: no advice", f.Level, f.Message)
		}
	}
	if len(all) < 6 {
		t.Errorf("only %d findings", len(all))
	}
}

// TestFullDiskFinding: a lack of space is a problem, with the server's own text if it reports a full disk.
func TestFullDiskFinding(t *testing.T) {
	got := littleRoom(api.Status{Disk: &api.FullDisk{Do: "remove images"}}, 0, "/data")
	if len(got) != 1 || got[0].Level != Problem || got[0].Fix != "remove images" ||
		!strings.HasPrefix(got[0].Message, "0 B free for /data: the disk of the server is full since ") {
		t.Errorf("%+v", got)
	}
	got = littleRoom(api.Status{}, 5000, "/data")
	if len(got) != 1 || got[0].Level != Problem || got[0].Fix != makeRoom {
		t.Errorf("%+v", got)
	}
}

// TestImageFindings: an incomplete version is a problem with a hint.
func TestImageFindings(t *testing.T) {
	s := api.Status{Groups: []api.Group{{Desired: "sha256:01"}, {}}}
	if got := imageFindings(s); len(got) != 1 || got[0].Level != Fine || !strings.Contains(got[0].Message, "1 groups") {
		t.Errorf("%+v", got)
	}
	s.Broken = []api.BrokenVersion{
		{Groups: []string{"lab", "kiosk"}, Problem: "its kernel is damaged", Do: "repair it"},
	}
	if got := imageFindings(s); len(got) != 1 || got[0].Level != Problem || got[0].Fix != "repair it" ||
		got[0].Message != "lab, kiosk cannot boot: its kernel is damaged" {
		t.Errorf("%+v", got)
	}
}

// The hint is complete even if there are no interfaces to name.
func TestHintWithoutInterfaces(t *testing.T) {
	if got := nameOne("the interfaces are", nil); strings.Contains(got, "the interfaces are") {
		t.Errorf("without any: %q", got)
	}
	if got := nameOne("the interfaces are", []string{"eth0", "eth1"}); got != "the interfaces are eth0, eth1" {
		t.Errorf("with two: %q", got)
	}
}
