package boot

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// rival is a network manager that might configure the NIC of the root.
type rival struct {
	name  string
	unit  string   // restarted on the running node
	units []string // all its units, which other tests mask
	view  string   // command that prints what it says about the NIC $nic
	want  string
}

var rivals = []rival{
	{"networkmanager", "NetworkManager.service",
		[]string{"NetworkManager.service", "NetworkManager-wait-online.service", "NetworkManager-dispatcher.service"},
		`nmcli -g GENERAL.STATE device show "$nic"`, "10 (unmanaged)"},
	// right after its start it may not have looked at every NIC yet
	{"networkd", "systemd-networkd.service",
		[]string{"systemd-networkd.service", "systemd-networkd.socket", "systemd-networkd-wait-online.service"},
		`for i in $(seq 100); do
			said=$(networkctl list --no-legend --no-pager "$nic" | awk '{print $NF}')
			[ "$said" = pending ] || break; sleep 0.1
		done; echo $said`, "unmanaged"},
	{"ifupdown", "networking.service",
		[]string{"networking.service", "ifupdown-wait-online.service"},
		`ifquery --state; systemctl show -P ActiveState "ifup@$nic.service"`, "lo=lo\ninactive"},
}

// foreignRoot is the root and swap device in an image of an installed machine.
const foreignRoot = "UUID=3b9dd8a6-0c2f-4d0e-9b48-000000000000"

// rivalsRecipe has all three managers. Each is configured to run DHCP on every NIC, and ssh waits for each. The root in
// its fstab is a disk that no node has.
const rivalsRecipe = `from: debian:bookworm
packages: [network-manager, ifupdown, isc-dhcp-client, curl]
files:
  - path: /etc/systemd/network/50-dhcp.network
    content: |
      [Match]
      Name=en* eth*
      [Network]
      DHCP=yes
  - path: /etc/network/interfaces
    content: |
      auto lo eth0
      iface lo inet loopback
      iface eth0 inet dhcp
      allow-hotplug eth0 enp0s2 enp0s3 ens2 ens3
      iface enp0s2 inet dhcp
      iface enp0s3 inet dhcp
      iface ens2 inet dhcp
      iface ens3 inet dhcp
  - path: /etc/fstab
    content: |
      ` + foreignRoot + ` / ext4 errors=remount-ro 0 1
      ` + foreignRoot + ` none swap sw 0 0
  - path: /etc/systemd/system/ssh.service.d/online.conf
    content: |
      [Unit]
      Wants=network-online.target
      After=network-online.target
customize:
  - systemctl enable NetworkManager NetworkManager-wait-online systemd-networkd systemd-networkd-wait-online networking ifupdown-wait-online
`

// gateway is given to the nodes, so that there is a default route that could be lost.
const gateway = "10.77.0.1"

// One of three network managers runs at a time. It treats the NIC as unmanaged, nothing waits for it, no second DHCP
// client runs, and its restart removes nothing that the root needs. The boot does not wait for the disk in the image's
// fstab, and the node shuts down normally.
func TestRealBootWithEachNetworkManager(t *testing.T) {
	needFull(t)
	s := newSite(t, "own", "--router", gateway)
	s.build("rivals", rivalsRecipe)
	for i, r := range rivals {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			s := *s
			s.t = t
			s.bootRival(
				r,
				node{
					name:     r.name,
					mac:      fleet.MAC{0x52, 0x54, 0, 10, 0, byte(i + 1)},
					firmware: testkit.BIOS,
					group:    "rivals",
				},
			)
		})
	}
}

// build makes an image of a recipe, and a group of the same name that boots it.
func (s *site) build(name, recipe string) {
	s.t.Helper()
	file := filepath.Join(s.dir, name+".yaml")
	if err := os.WriteFile(file, []byte(recipe), 0o644); err != nil {
		s.t.Fatal(err)
	}
	c := exec.CommandContext(
		s.t.Context(),
		filepath.Join(binDir, "pando"),
		"--data",
		s.Config.Data,
		"image",
		"build",
		name,
		"--recipe",
		file,
	)
	if out, err := c.CombinedOutput(); err != nil {
		s.t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	s.group(name)
}

// bootRival boots a node with r as the only unmasked manager, checks it before and after a restart of r, and shuts it
// down.
func (s *site) bootRival(r rival, n node) {
	s.t.Helper()
	s.announce(n)
	args := maskOthers(r)
	if _, err := s.API.SetNodes(s.t.Context(), api.NodeSet{Select: n.name, KernelArgs: &args}); err != nil {
		s.t.Fatal(err)
	}
	m, booted := s.powerOn(n)
	s.waitUp(n, m)
	g := s.shell(n)
	s.prove(n, g)
	booted()
	before := s.unmanaged(r, n, g)
	s.t.Logf("after the boot:\n%s", before)
	s.restart(r, n, g)
	if after := s.unmanaged(r, n, g); after != before {
		s.t.Errorf("after the restart of %s:\n%s\nbefore:\n%s", r.unit, after, before)
	}
	s.noErrors(n, g)
	s.powerOff(m)
	s.wait(n.name, stepTimeout, m, func(n api.Node) bool { return n.Boot != nil && n.Boot.State == trace.Down })
}

func maskOthers(r rival) []string {
	var args []string
	for _, other := range rivals {
		if other.name == r.name {
			continue
		}
		for _, unit := range other.units {
			args = append(args, "systemd.mask="+unit)
		}
	}
	return args
}

// unmanaged checks that r runs and has not changed the NIC, and returns the NIC's configuration.
func (s *site) unmanaged(r rival, n node, g *testkit.Guest) string {
	s.t.Helper()
	addr, err := s.Address(s.t.Context(), n.mac)
	if err != nil {
		s.t.Fatal(err)
	}
	nic := s.run(g, fmt.Sprintf(`basename "$(dirname "$(grep -l %s /sys/class/net/*/address)")"`, n.mac))
	shell := "nic=" + nic + "; "
	for _, look := range []struct{ what, command, want string }{
		{"systemd", "systemctl is-system-running --wait || true", "running"},
		{"failed units", "systemctl --failed --no-legend --plain | cut -d' ' -f1", ""},
		{"network managers that run", activeCommand(), r.unit},
		{"what waits for the network", "systemctl is-active network-online.target", "active"},
		{"what fstab mounts", "findmnt --fstab --noheadings --output SOURCE,TARGET || true", ""},
		{"fstab's lines of a foreign root", "grep -c '^#.*" + foreignRoot + "' /etc/fstab || true", "2"},
		{"units of a foreign root", "systemctl list-units --all --plain --no-legend '*3b9dd8a6*'", ""},
		{"devices waited for in vain", "journalctl -b -q --no-pager | grep 'Timed out waiting for device' || true", ""},
		{"udev's renaming of " + nic, `udevadm info "/sys/class/net/$nic" | grep ID_RENAMING || true`, ""},
		{"what it says of " + nic, r.view, r.want},
		{"addresses", `ip -4 -o addr show scope global | awk '{print $2, $4}'`, nic + " " + addr.String() + "/24"},
		{"default routes", `ip -4 route show default | awk '{print $3, $5}'`, gateway + " " + nic},
		{"DHCP clients", "pgrep -l 'dhclient|dhcpcd|udhcpc' || true", ""},
		{"sockets for DHCP", "ss -Hulpn 'sport = :68'; ss -H0lpn | grep -v pando-init || true", ""},
	} {
		if got := s.run(g, shell+look.command); got != look.want {
			s.t.Errorf("%s: %s: %q, expected %q", r.name, look.what, got, look.want)
		}
	}
	return s.run(
		g,
		shell+`ip -o link show "$nic"; ip -4 route; ip -4 -o addr show "$nic" | cut -d'\' -f1; cat /etc/resolv.conf`,
	)
}

// activeCommand returns a command that prints which managers run.
func activeCommand() string {
	var units []string
	for _, r := range rivals {
		units = append(units, r.unit)
	}
	return "for u in " + strings.Join(units, " ") + "; do systemctl -q is-active $u && echo $u; done; true"
}

// coldFiles is the number of files that are read for the first time during a restart of a manager.
const coldFiles = 150

// restart restarts r while files are read. The NIC must not lose its configuration.
func (s *site) restart(r rival, n node, g *testkit.Guest) {
	s.t.Helper()
	const script = `ip -o monitor link address route >/run/monitor 2>&1 & watch=$!
		systemctl restart %s; status=$?
		find /usr/share/perl /usr/lib/x86_64-linux-gnu/perl* -xdev -type f | head -n %d | xargs sha256sum
		kill $watch; exit $status`
	before := s.linkFixes(g)
	out := s.run(g, fmt.Sprintf(script, r.unit, coldFiles))
	content, lines := s.content(n.name), slices.Collect(strings.Lines(out))
	for _, line := range lines {
		got, path, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if want, err := content.Sum(path); err != nil || got != want {
			s.t.Errorf("%s: sum %s, in the image %s (%v)", path, got, want, err)
		}
	}
	if len(lines) != coldFiles {
		s.t.Errorf("%d sums of %d files", len(lines), coldFiles)
	}
	seen, after := s.run(g, "cat /run/monitor"), s.linkFixes(g)
	s.t.Logf(
		"link fixes: %d until the restart of %s, %d by it; the kernel told:\n%s",
		before,
		r.unit,
		after-before,
		seen,
	)
	for _, bad := range []string{"state DOWN", "Deleted"} {
		if lost := grep(seen, bad); lost != "" {
			s.t.Errorf("the restart of %s took something away:\n%s", r.unit, lost)
		}
	}
}

// linkFixes returns how often the block daemon restored network configuration.
func (s *site) linkFixes(g *testkit.Guest) int {
	s.t.Helper()
	out := s.run(g, `curl -s --unix-socket /run/pando/block.sock http://block/status | grep -o '"link_fixes":[0-9]*'`)
	_, number, _ := strings.Cut(out, ":")
	fixes, err := strconv.Atoi(number)
	if err != nil {
		s.t.Fatalf("status of the block daemon: %q", out)
	}
	return fixes
}
