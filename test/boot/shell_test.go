package boot

import (
	"os/exec"
	"path/filepath"
	"testing"

	"pando/internal/fleet"
	"pando/internal/testkit"
)

// A file that `pando image shell` has written is on the node that boots next; nothing of how the shell was run is.
func TestRealBootFromShell(t *testing.T) {
	needBoot(t)
	s := newSite(t, "own")
	before, err := s.API.Image(t.Context(), bookworm)
	if err != nil {
		t.Fatal(err)
	}
	const script = `echo "changed from inside" > /etc/motd && systemctl mask getty@tty1.service &&
		useradd --create-home --shell /bin/sh pupil && test -s /etc/resolv.conf`
	s.command("image", "shell", bookworm, "--", "sh", "-euc", script)
	after, err := s.API.Image(t.Context(), bookworm)
	if err != nil {
		t.Fatal(err)
	}
	if after.Tags[fleet.LatestTag] == before.Tags[fleet.LatestTag] || len(after.Versions) != len(before.Versions)+1 {
		t.Fatalf("versions %+v, before %+v", after, before)
	}
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 21, 0, 1}, firmware: testkit.BIOS, group: bookworm}
	s.boot(n)
	g := s.shell(n)
	s.prove(n, g)
	for command, want := range map[string]string{
		"cat /etc/motd": "changed from inside", "systemctl is-enabled getty@tty1.service || true": "masked", "stat -c %U /home/pupil": "pupil",
		"ls -A /usr/sbin/policy-rc.d /run/pando-inside 2>/dev/null || echo none": "none",
	} {
		if got := s.run(g, command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// command runs the operator's program at the site, and fails the test if it fails.
func (s *site) command(args ...string) string {
	s.t.Helper()
	c := exec.CommandContext(
		s.t.Context(),
		filepath.Join(binDir, "pando"),
		append([]string{"--data", s.Config.Data}, args...)...)
	out, err := c.CombinedOutput()
	if err != nil {
		s.t.Fatalf("pando %q: %v\n%s", args, err, out)
	}
	return string(out)
}
