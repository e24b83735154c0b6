package boot

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/fleet"
	"pando/internal/testkit"
)

// An image whose root is squashfs boots like any other, with the same index, block daemon and agent.
func TestRealBootFromSquashfs(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	c := exec.CommandContext(t.Context(), filepath.Join(binDir, "pando"), "--data", s.Config.Data, "image", "build", "squash",
		"--recipe", "debian:bookworm", "--format", "squashfs")
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "squashfs") {
		t.Fatalf("%v\n%s", err, out)
	}
	img, err := s.API.Image(t.Context(), "squash")
	if err != nil || len(img.Versions) != 1 || img.Versions[0].FileSystem != "squashfs" {
		t.Fatalf("%+v, %v", img, err)
	}
	s.group("squash")
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 0x4b, 0, 2}, firmware: testkit.BIOS, group: "squash"}
	s.boot(n)
	g := s.shell(n)
	s.run(g, "test \"$(systemctl is-system-running --wait)\" = running")
	if kind := s.run(g, "grep -c '/dev/nbd0\\|overlay / ' /proc/mounts; cat /sys/fs/erofs/nbd0/* 2>/dev/null | head -1; lsmod | grep -c '^squashfs'"); !strings.HasSuffix(kind, "1") {
		t.Errorf("squashfs is not in use: %q", kind)
	}
	s.run(g, "cat /usr/bin/* /usr/lib/x86_64-linux-gnu/lib*.so.* > /dev/null") // cold reads
	s.noErrors(n, g)
}
