package boot

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// Each firmware and each Debian boots; the other two pairs are in another test unless PANDO_FULL is set. The BIOS
// machine has a second NIC that gets no address. The UEFI machine has a processor of 2003 and no random number
// generator. Both have SMBIOS texts with characters that have a meaning in URLs.
func TestRealBootOfEachFirmwareAndDebian(t *testing.T) {
	needBoot(t)
	s := newSite(t, "own", "--dns", "10.77.0.53,10.77.0.54")
	nodes := []node{
		{name: "uefi-12", mac: fleet.MAC{0x52, 0x54, 0, 1, 0, 2}, firmware: testkit.UEFI, group: bookworm,
			poor: true, smbios: "manufacturer=" + oddVendor + ",serial=" + oddSerial},
		{name: "bios-13", mac: fleet.MAC{0x52, 0x54, 0, 1, 0, 3}, firmware: testkit.BIOS, group: trixie, nic: "e1000e",
			second: fleet.MAC{0x52, 0x54, 0, 1, 1, 3},
			smbios: "manufacturer=" + oddVendor + ",serial=" + oddSerial},
	}
	if full() {
		nodes = append(nodes,
			node{name: "bios-12", mac: fleet.MAC{0x52, 0x54, 0, 1, 0, 1}, firmware: testkit.BIOS, group: bookworm,
				second: fleet.MAC{0x52, 0x54, 0, 1, 1, 1}},
			node{name: "uefi-13", mac: fleet.MAC{0x52, 0x54, 0, 1, 0, 4}, firmware: testkit.UEFI, group: trixie})
	}
	if _, err := s.API.CreateClass(t.Context(), fleet.Class{Name: "kontron", Match: fleet.Match{
		Vendor: []string{"Kontron S&T;*"}}, KernelArgs: []string{"of=kontron"}}); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			s := *s
			s.t = t
			m := s.boot(n)
			s.gathersRandom(n, m)
			s.knownNIC(n)
			s.oddTexts(n)
			g := s.shell(n)
			s.prove(n, g)
			s.resolvers(n, g, "nameserver 10.77.0.53\nnameserver 10.77.0.54")
			if cards := s.run(g, "cat /sys/class/net/e*/address"); !n.second.IsZero() &&
				!strings.Contains(cards, n.second.String()) {
				t.Errorf("the second card is not there: %s", cards)
			}
		})
	}
}

// gathersRandom checks that a poor machine said that it waited for random numbers. If its kernel has them from its
// firmware ("crng init done" before /init), the machine is not as poor as this test needs.
func (s *site) gathersRandom(n node, m *testkit.Machine) {
	s.t.Helper()
	text, err := m.Console.Text()
	if err != nil {
		s.t.Fatal(err)
	}
	if n.poor && !strings.Contains(text, "waits for the kernel to gather random numbers") {
		_, rng, _ := strings.Cut(text, "random: ")
		rng, _, _ = strings.Cut(rng, "\n")
		s.t.Errorf("%s does not say that it waits for random numbers; its kernel says %q", n.name, rng)
	}
}

// The texts in the machines' SMBIOS.
const (
	oddVendor = "Kontron S&T;#AG"
	oddSerial = "SN&1#2;3+4%5"
)

// oddTexts checks that a machine's texts arrived complete from its boot loader and its kernel.
func (s *site) oddTexts(n node) {
	s.t.Helper()
	if n.smbios == "" {
		return
	}
	if is, err := s.API.Node(s.t.Context(), n.name); err != nil || is.SerialSeen != oddSerial {
		s.t.Errorf("node %s has serial number %q (%v), want %q", n.name, is.SerialSeen, err, oddSerial)
	}
	b, err := s.API.NodeBoot(s.t.Context(), n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range b.Events {
		if e.Stage == trace.Script && e.Kind == trace.End && !strings.Contains(e.Attrs[trace.AttrArgs], "of=kontron") {
			s.t.Errorf("the script of %s is not that of its class: %q", n.name, e.Attrs[trace.AttrArgs])
		}
	}
}

// knownNIC checks that a node got the drivers of its NIC only, and bounds K with these.
func (s *site) knownNIC(n node) {
	s.t.Helper()
	b, err := s.API.NodeBoot(s.t.Context(), n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	want := strings.TrimSpace("base " + n.nic)
	got, sent := "", int64(0)
	for _, e := range b.Events {
		if e.Stage == trace.Script && e.Kind == trace.End {
			got = e.Attrs["drivers"]
		}
		if e.Stage == trace.Kernel || e.Stage == trace.Initramfs {
			sent += e.Bytes[trace.SourceK]
		}
	}
	s.t.Logf("K of %s on %s: %d bytes with drivers of %s", n.name, n.group, sent, got)
	if got != want || sent == 0 || sent > knownBounds[n.group] {
		s.t.Errorf(
			"it was sent %d bytes with drivers of %q, want %q and at most %d bytes",
			sent,
			got,
			want,
			knownBounds[n.group],
		)
	}
}

// An unknown machine waits until it is adopted. It boots an image that `pando image shell` changed, reboots and powers
// off normally, and remains the same node. Its config files, also those of its hardware class, exist before its init
// starts, and are updated while it runs.
func TestRealBootTwiceAndPowerOff(t *testing.T) {
	needBoot(t)
	s := newSite(t, "own")
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 2, 0, 1}, firmware: testkit.BIOS, group: bookworm}
	s.changeByShell(bookworm)
	s.declare(
		"@"+bookworm,
		"/etc/lab/place",
		"{{.Name}} {{.IP}} {{label .Labels \"rack\" \"none\"}}\n",
		api.ConfigSet{ConfigFile: fleet.ConfigFile{Owner: "daemon:adm", Mode: 0o640}},
	)
	s.declare(
		"@"+bookworm,
		"/etc/systemd/system/ssh.service.d/lab.conf",
		"[Service]\nEnvironment=LAB={{.Group}}\n",
		api.ConfigSet{},
	)
	s.declare("all", "/etc/motd", "line\n{{.Labels.row}}\n", api.ConfigSet{})
	s.classes()
	m, booted := s.powerOnUnknown(n)
	s.waitUp(n, m)
	booted()
	g := s.shell(n)
	s.shellWasHere(g)
	s.haveConfig(n, g)
	s.haveClass(n, g)
	s.syncs(n, g)
	s.wait(n.name, stepTimeout, m, func(n api.Node) bool { return n.Writes().String() == "tmpfs" })
	identity := "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub; ip -4 -o addr show scope global | grep -o " +
		"'inet [^ ]*'"
	before := s.run(g, identity)
	s.run(g, "touch /root/written")
	first := s.wait(n.name, stepTimeout, m, func(n api.Node) bool { return n.Boot != nil }).Boot.ID

	if _, err := g.Run(t.Context(), "systemctl reboot"); err != nil {
		t.Logf("reboot: %v (the connection may end before the command does)", err)
	}
	s.wait(n.name, bootTimeout, m, func(n api.Node) bool {
		return n.Boot != nil && n.Boot.ID != first && n.Boot.State.Reached()
	})
	old, err := s.API.Boot(t.Context(), first)
	if err != nil || old.State != trace.Down {
		t.Errorf("the first boot is %q (%v), expected %q: a node says that it goes down", old.State, err, trace.Down)
	}
	g = s.shell(n)
	if after := s.run(g, identity); after != before {
		t.Errorf("another machine after the reboot:\n%s\nbefore:\n%s", after, before)
	}
	if out := s.run(g, "ls /root"); out != "" {
		t.Errorf("what was written outlived the reboot: %s", out)
	}
	s.haveClass(n, g)
	s.prove(n, g)

	s.powerOff(m)
	s.wait(n.name, stepTimeout, m, func(n api.Node) bool { return n.Boot.State == trace.Down })
}

// declare declares a config file.
func (s *site) declare(of, path, content string, set api.ConfigSet) {
	s.t.Helper()
	var err error
	set.Path, set.Content = path, []byte(content)
	if set.For, err = fleet.ParseScope(of); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.API.SetConfigFile(s.t.Context(), set); err != nil {
		s.t.Fatal(err)
	}
}

// haveConfig checks the declared files: one with another owner, one that systemd has read, and one that could not be
// rendered, which the timeline reports.
func (s *site) haveConfig(n node, g *testkit.Guest) {
	s.t.Helper()
	addr, err := s.Address(s.t.Context(), n.mac)
	if err != nil {
		s.t.Fatal(err)
	}
	want := fmt.Sprintf("%s %s none\ndaemon:adm 640", n.name, addr)
	if got := s.run(g, "cat /etc/lab/place; stat -c '%U:%G %a' /etc/lab/place"); got != want {
		s.t.Errorf("/etc/lab/place is\n%s\nwant\n%s", got, want)
	}
	if got := s.run(g, "systemctl show ssh -p Environment -p NeedDaemonReload"); got != "Environment=LAB="+bookworm+
		"\nNeedDaemonReload=no" {
		s.t.Errorf("systemd has of the drop-in:\n%s", got)
	}
	b, err := s.API.NodeBoot(s.t.Context(), n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	want = "without config file /etc/motd of all:2: {{.Labels.row}}: the node has no row"
	if !slices.ContainsFunc(
		b.Events,
		func(e trace.Event) bool { return e.Stage == trace.Config && e.Message == want },
	) {
		s.t.Errorf("the timeline does not tell %q", want)
	}
}
