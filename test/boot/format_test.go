package boot

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/fleet"
	"pando/internal/testkit"
)

// An image with a squashfs root boots like any other, with the same index, block daemon and agent.
func TestRealBootFromSquashfs(t *testing.T) { bootFrom(t, "squashfs") }

// bootFrom builds an image with a kind of root file system, boots a machine from it and reads every file.
func bootFrom(t *testing.T, kind string) {
	t.Helper()
	needFull(t)
	s := newSite(t, "own")
	c := exec.CommandContext(
		t.Context(),
		filepath.Join(binDir, "pando"),
		"--data",
		s.Config.Data,
		"image",
		"build",
		kind,
		"--recipe",
		"debian:bookworm",
		"--format",
		kind,
	)
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), " stored, "+kind) {
		t.Fatalf("%v\n%s", err, out)
	}
	img, err := s.API.Image(t.Context(), kind)
	if err != nil || len(img.Versions) != 1 || img.Versions[0].FileSystem != kind {
		t.Fatalf("%+v, %v", img, err)
	}
	s.group(kind)
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 0x4b, 0, 2}, firmware: testkit.BIOS, group: kind}
	s.boot(n)
	g := s.shell(n)
	s.run(g, "test \"$(systemctl is-system-running --wait)\" = running")
	if loaded := s.run(g, "lsmod | grep -c '^"+kind+" '; lsmod | grep -c '^erofs' || true"); strings.Join(
		strings.Fields(loaded),
		" ",
	) != "1 0" {
		t.Errorf("%s is not in use: %q", kind, loaded)
	}
	s.run(g, "cat /usr/bin/* /usr/lib/x86_64-linux-gnu/lib*.so.* > /dev/null") // cold reads
	s.noErrors(n, g)
}
