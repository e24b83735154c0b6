package boot

import (
	"os/exec"
	"path/filepath"

	"pando/internal/fleet"
	"pando/internal/testkit"
)

// changeByShell changes an image with `pando image shell`.
func (s *site) changeByShell(name string) {
	s.t.Helper()
	before, err := s.API.Image(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	const script = `echo "changed from inside" > /etc/motd && systemctl mask getty@tty1.service &&
		useradd --create-home --shell /bin/sh pupil && test -s /etc/resolv.conf`
	s.command("image", "shell", name, "--", "sh", "-euc", script)
	after, err := s.API.Image(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	if after.Tags[fleet.LatestTag] == before.Tags[fleet.LatestTag] || len(after.Versions) != len(before.Versions)+1 {
		s.t.Fatalf("versions %+v, before %+v", after, before)
	}
}

// shellWasHere expects the changes of changeByShell on a node, and no traces of how the shell was run.
func (s *site) shellWasHere(g *testkit.Guest) {
	s.t.Helper()
	for command, want := range map[string]string{
		"cat /etc/motd": "changed from inside",
		"systemctl is-enabled getty@tty1.service || true":                        "masked",
		"stat -c %U /home/pupil":                                                 "pupil",
		"ls -A /usr/sbin/policy-rc.d /run/pando-inside 2>/dev/null || echo none": "none",
	} {
		if got := s.run(g, command); got != want {
			s.t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// command runs the operator's program for the site, and fails the test if it fails.
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
