package boot

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// arm64Timeout bounds the boot of an emulated arm64 machine, whose firmware alone takes a minute.
const arm64Timeout = 20 * time.Minute

// arm64Loader returns an iPXE for arm64: the one that scripts/install-packages fetches, or that of Debian 13 and later.
func arm64Loader(t *testing.T) string {
	t.Helper()
	for _, p := range []string{filepath.Join(binDir, "../ipxe/ipxe-arm64.efi"), "/usr/lib/ipxe/ipxe-arm64.efi"} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	t.Skip("no iPXE for arm64: `scripts/install-packages arm64` fetches it")
	return ""
}

// A recipe makes an arm64 image with an emulator, and an arm64 machine with UEFI boots it from an amd64 server. Its
// hardware class gives it a kernel argument at its first boot, by what its boot loader reports.
func TestRealBootArm64(t *testing.T) {
	needFull(t)
	loader := arm64Loader(t)
	undo, err := testkit.RunARM64()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logError(t, undo()) })
	files := t.TempDir()
	if out, err := exec.Command("cp", loader, files).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := withImages(
		t.Context(),
		"arm64",
		base,
		map[string]string{"arm": "debian:bookworm --architecture arm64"},
	)
	if err != nil {
		t.Fatal(err)
	}
	s := newSiteIn(t, newNet(t), data, "own", "--boot-files", files)
	img, err := s.API.Image(t.Context(), "arm")
	if err != nil || len(img.Versions) != 1 || img.Versions[0].Architecture != "arm64" {
		t.Fatalf("%+v, %v", img, err)
	}
	if _, err := s.API.CreateGroup(t.Context(),
		fleet.Group{Name: "arm", Image: "arm", KernelArgs: []string{"console=ttyAMA0"},
			Settings: fleet.Settings{AuthorizedKeys: &[]string{authorized}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.API.CreateClass(t.Context(),
		fleet.Class{Name: "arm", Match: fleet.Match{Architecture: []string{"arm64"}},
			KernelArgs: []string{"of.class=arm"}}); err != nil {
		t.Fatal(err)
	}

	n := node{
		name:     "arm001",
		mac:      fleet.MAC{0x52, 0x54, 0, 0x64, 0, 1},
		firmware: testkit.UEFIARM64,
		group:    "arm",
		memory:   1024,
		cpus:     2,
	}
	s.announce(n)
	m, booted := s.powerOn(n)
	up := s.wait(n.name, arm64Timeout, m, func(n api.Node) bool {
		return n.Boot != nil && n.Boot.State.Reached() && n.Running != "" && n.Running == n.Desired
	})
	booted()
	t.Logf("arm64 is up after %s; K %d bytes", up.Boot.Elapsed, up.Boot.Bytes[trace.SourceK])
	if h := up.Hardware; h == nil || h.Architecture != "arm64" || len(up.Classes) != 1 {
		t.Errorf("hardware %+v, classes %v", h, up.Classes)
	}
	g := s.shell(n)
	if got := s.run(g, "uname -m; systemctl is-system-running --wait"); got != "aarch64\nrunning" {
		t.Errorf("it says %q", got)
	}
	if line := s.run(g, "cat /proc/cmdline"); !strings.Contains(line, " of.class=arm") {
		t.Errorf("its class gave it no argument: %s", line)
	}
	s.run(g, "cat /usr/bin/* /usr/lib/aarch64-linux-gnu/lib*.so.* > /dev/null") // cold reads
	s.noErrors(n, g)
	s.powerOff(m)
}
