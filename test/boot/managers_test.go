package boot

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
	"pando/internal/testkit"
)

// Images that would like to manage the adapter that their root hangs on, and one that thinks its root is a disk.
var managers = []struct {
	name, recipe string
	asks         string // what the manager says of the adapter
	says         string
}{
	{"networkmanager", `from: debian:bookworm
packages: [network-manager]
customize: [systemctl enable NetworkManager]
`, "nmcli -t -f GENERAL.STATE device show $(ip -4 -o route show default | sed 's/.* dev \\([^ ]*\\).*/\\1/')", "unmanaged"},
	{"networkd", `from: debian:bookworm
files:
  - path: /etc/systemd/network/50-all.network
    content: |
      [Match]
      Name=e*
      [Network]
      DHCP=yes
  - path: /etc/fstab
    content: |
      UUID=3b9dd8a6-0c2f-4d0e-9b48-000000000000 / ext4 errors=remount-ro 0 1
customize: [systemctl enable systemd-networkd systemd-networkd-wait-online]
`, "networkctl list --no-legend --no-pager", "unmanaged"},
	{"ifupdown", `from: debian:bookworm
packages: [ifupdown, isc-dhcp-client]
files:
  - path: /etc/network/interfaces
    content: |
      auto lo
      iface lo inet loopback
      auto eth0
      iface eth0 inet dhcp
      allow-hotplug enp0s2
      iface enp0s2 inet dhcp
      auto enp0s3
      iface enp0s3 inet dhcp
`, "systemctl is-active networking", "active"},
}

// Whatever manages the network in an image leaves the adapter alone that the root is on: the node comes up without a
// failed unit, keeps its address, and goes down by itself.
func TestRealBootWithEachNetworkManager(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	for i, manager := range managers {
		n := node{manager.name, fleet.MAC{0x52, 0x54, 0, 8, 0, byte(i)}, testkit.BIOS, manager.name, ""}
		s.build(manager.name, manager.recipe)
		t.Run(manager.name, func(t *testing.T) {
			s := *s
			s.t = t
			m := s.boot(n)
			g := s.shell(n)
			s.prove(n, g)
			if said := s.run(g, manager.asks); !strings.Contains(said, manager.says) {
				t.Errorf("%s says of the adapter:\n%s", manager.name, said)
			}
			s.powerOff(m)
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
	c := exec.CommandContext(s.t.Context(), filepath.Join(binDir, "pando"), "--data", s.Config.Data, "image", "build", name, "--recipe", file)
	if out, err := c.CombinedOutput(); err != nil {
		s.t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	s.group(name)
}

// powerOff presses the power button until the machine is off: as long as udev has not loaded the button's driver, which
// it may do after the last unit is up, nobody hears it.
func (s *site) powerOff(m *testkit.Machine) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), stepTimeout)
	defer cancel()
	for ctx.Err() == nil {
		pressed := m.PowerButton(ctx)
		press, again := context.WithTimeout(ctx, 30*time.Second)
		err := m.WaitOff(press)
		again()
		if err == nil {
			return
		}
		if pressed != nil {
			s.t.Fatal(pressed)
		}
	}
	s.t.Errorf("%s is still on; its console ends with:\n%s", m.Config.Name, m.Console.Tail(15))
}

// A node that shuts down while its server is away waits for it, and then goes down.
func TestRealBootGoesDownWhenItsServerIsBack(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	n := node{"pc001", fleet.MAC{0x52, 0x54, 0, 9, 0, 1}, testkit.UEFI, trixie, ""}
	m := s.boot(n)
	g := s.shell(n)
	s.run(g, "systemctl is-system-running --wait; nohup sh -c 'sleep 5; systemctl poweroff' >/dev/null 2>&1 &")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Minute)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	if err := m.WaitOff(ctx); err != nil {
		t.Error(err)
	}
}
