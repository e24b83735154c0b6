package admit

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

// A server whose disk is completely full still acknowledges the address of a known node to a real client, also after it
// was killed and restarted. An unknown machine gets no address until there is space.
func TestAddressesOnAFullDisk(t *testing.T) {
	bin := programs(t)
	if _, err := exec.LookPath("udhcpc"); err != nil {
		t.Skipf("%v (Debian's package udhcpc has it)", err)
	}
	dir, err := os.MkdirTemp("", "full") // short: there is a socket in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", data, "tmpfs", 0, "size=48m"); err != nil {
		t.Skipf("this machine does not mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(data, unix.MNT_DETACH) })
	server, client := newNet(t, "10.84.0.1/24"), newNet(t, "10.85.0.1/24")
	if err := server.Veth(client, "eth0"); err != nil {
		t.Fatal(err)
	}
	site, err := testkit.StartSite(t.Context(), testkit.SiteConfig{Net: server, Bin: bin, Data: data,
		Log: filepath.Join(dir, "log"), DHCP: "own", Args: []string{"--range", "10.84.0.100-10.84.0.120"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = site.Close() })
	known, unknown := fleet.MAC{2, 1, 0, 0, 0, 1}, fleet.MAC{2, 1, 0, 0, 0, 2}
	if _, err := site.API.CreateNode(t.Context(), api.NodeCreate{Name: "pc1", MACs: []fleet.MAC{known}}); err != nil {
		t.Fatal(err)
	}
	full := fillUp(t, data)
	waitDisk(t, site.API, true)
	for range 2 {
		if out, ok := address(t, client, known); !ok {
			t.Errorf("the node that is known has no address:\n%s", out)
		}
		if out, ok := address(t, client, unknown); ok {
			t.Errorf("a machine that nobody knows has one, which is nowhere on record:\n%s", out)
		}
		if err := site.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := site.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		waitDisk(t, site.API, true)
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	waitDisk(t, site.API, false)
	if out, ok := address(t, client, unknown); !ok {
		t.Errorf("with room again there is no address:\n%s", out)
	}
}

func newNet(t *testing.T, addr string) *testkit.Net {
	t.Helper()
	n, err := testkit.NewNet("full", netip.MustParsePrefix(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// fillUp fills a disk with one file.
func fillUp(t *testing.T, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "filler")
	f, err := os.Create(path)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	f.Close()
	return path
}

// waitDisk waits until the server reports its disk as full, or as not full.
func waitDisk(t *testing.T, c *api.Client, full bool) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		s, err := c.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if (s.Disk != nil) == full {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("the disk is full: %v, and the status says %+v", full, s.Disk)
		}
	}
}

// address requests an address for a MAC with a real client, and reports whether it got one.
func address(t *testing.T, n *testkit.Net, mac fleet.MAC) (out string, ok bool) {
	t.Helper()
	if err := errors.Join(n.IP("link", "set", "eth0", "down"), n.IP("link", "set", "eth0", "address", mac.String()),
		n.IP("link", "set", "eth0", "up")); err != nil {
		t.Fatal(err)
	}
	b, err := n.Command(t.Context(), "udhcpc", "-f", "-n", "-q", "-t", "4", "-T", "2", "-i", "eth0", "-s", "/bin/true").
		CombinedOutput()
	return string(b), err == nil && strings.Contains(string(b), " obtained from ")
}
