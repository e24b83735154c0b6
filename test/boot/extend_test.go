package boot

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// TestRealExtension: a program becomes available on a running node seconds after a command, with a service, and in a
// session that was open before. It is removed while in use. At the next boot it is available before services start.
func TestRealExtension(t *testing.T) {
	needFull(t)
	s := newSite(t, "own", "--uplink", "2mbit") // so that the server alone would take its time
	s.pin(bookworm)
	s.command("image", "extend", bookworm, "--name", "tools", "--tree", toolsTree(t))
	n := node{
		name:     "pc001",
		mac:      fleet.MAC{0x52, 0x54, 0, 34, 0, 1},
		firmware: testkit.BIOS,
		group:    bookworm,
		memory:   1024,
	}
	m := s.boot(n)
	open := s.shell(n) // stays open during the test
	s.told([]node{n}, []*testkit.Machine{m})
	s.run(open, "! command -v greet; systemctl is-system-running --wait")
	kernel := s.run(open, "cat /proc/sys/kernel/random/boot_id")

	begun := time.Now()
	s.command("group", "set", bookworm, "--extend", "tools")
	s.waitRun(open, "greet", "hello")
	t.Logf("from the command to what the program prints: %s", time.Since(begun).Round(100*time.Millisecond))
	s.waitRun(open, "cat /run/greeted", "hello")
	s.waitExtensions(n, m, "tools")
	if out := s.command("node", "show", n.name); !strings.Contains(out, "tools@sha256:") {
		t.Errorf("the node is shown as\n%s", out)
	}
	s.healthy(open)

	s.run(open, "nohup sleeper 1000 > /dev/null 2>&1 < /dev/null & sleep 1; pgrep -x sleeper")
	begun = time.Now()
	s.command("group", "set", bookworm, "--no-extend")
	s.waitRun(open, "command -v greet || echo gone", "gone")
	t.Logf("and away: %s", time.Since(begun).Round(100*time.Millisecond))
	s.run(open, "pgrep -x sleeper; test -n \"$(ls -d /run/pando/ext-*)\"; touch /usr/writable; pkill -x sleeper")
	s.waitRun(open, "ls -d /run/pando/ext-* 2>/dev/null | wc -l; pgrep -fc '^@pando'", "0\n2")
	s.waitExtensions(n, m)
	if now := s.run(open, "cat /proc/sys/kernel/random/boot_id"); now != kernel {
		t.Error("another kernel runs")
	}

	s.extendByPackages(n, m, open)
	s.command("group", "set", bookworm, "--extend", "tools")
	s.waitRun(open, "greet", "hello")
	s.rebootBy(n, m, fleet.MethodReboot)
	g := s.shell(n)
	if out := s.run(g, "greet; cat /run/greeted"); out != "hello\nhello" {
		t.Errorf("after a reboot: %q", out)
	}
	s.run(g, "systemctl is-system-running --wait")
	s.healthy(g)
	s.waitExtensions(n, m, "tools")
	s.refusesOthers(n, m)
	s.powerOff(m)
}

// extendByPackages: a package of the distribution, with its dependencies, becomes available on a running node. A node
// that attaches the extension later has it from the start.
func (s *site) extendByPackages(n node, m *testkit.Machine, open *testkit.Guest) {
	s.t.Helper()
	const try, answer = `echo '{"n": 41}' | jq '.n + 1'`, "42"
	s.run(open, "! command -v jq")
	s.command("image", "extend", bookworm, "--name", "json", "--packages", "jq")
	bill := s.command("image", "show", "json", "--sbom")
	for _, name := range []string{`"jq"`, `"libjq1"`, `"libonig5"`} {
		if !strings.Contains(bill, name) {
			s.t.Errorf("package %s is not told of:\n%s", name, bill)
		}
	}
	later := node{
		name:     "pc002",
		mac:      fleet.MAC{0x52, 0x54, 0, 34, 0, 2},
		firmware: testkit.BIOS,
		group:    bookworm,
		memory:   1024,
	}
	other := s.boot(later)
	g := s.shell(later)
	s.command("node", "set", later.name, "--no-extend")
	s.command("group", "set", bookworm, "--extend", "json")
	s.waitRun(open, try, answer)
	s.waitExtensions(n, m, "json")
	s.run(g, "! command -v jq")
	s.command("node", "set", later.name, "--extend", "json")
	s.waitRun(g, try, answer)
	e := s.waitEvent(later.name, other, func(e trace.Event) bool {
		return strings.Contains(e.Message, "json") && strings.Contains(e.Message, "received")
	})
	s.t.Log(e.Message)
	if strings.Contains(e.Message, " 0.0 MB of it from peers") {
		s.t.Errorf("%s, which came later: %s", later.name, e.Message)
	}
	s.healthy(g)
	s.powerOff(other)
	s.command("group", "set", bookworm, "--no-extend")
	s.waitExtensions(n, m)
}

// refusesOthers: the server refuses a version of the image together with an extension that was made for another
// version. A node that gets both anyway boots, and reports what it lacks.
func (s *site) refusesOthers(n node, m *testkit.Machine) {
	s.t.Helper()
	s.command("image", "shell", bookworm, "--tag", "next", "--", "sh", "-euc", "echo next > /etc/motd")
	ref := fleet.Ref(bookworm + ":next")
	_, err := s.API.SetGroup(s.t.Context(), bookworm, api.GroupSet{Image: &ref})
	if err == nil || !strings.Contains(err.Error(), "extension tools was made on") {
		s.t.Errorf("an image beside an extension of another one: %v", err)
	}
	s.command("image", "extend", string(ref), "--name", "tools", "--tree", toolsTree(s.t))
	if _, err := s.API.SetGroup(s.t.Context(), bookworm, api.GroupSet{Image: &ref}); err != nil {
		s.t.Errorf("an image beside an extension of both: %v", err)
	}
	s.waitExtensions(n, m, "tools") // that of what it runs, though the tag is on the other
}

// toolsTree has a program, a long-running program, and a service.
func toolsTree(t *testing.T) string {
	t.Helper()
	tree := t.TempDir()
	for name, text := range map[string]string{
		"usr/bin/greet":   "#!/bin/sh\necho hello\n",
		"usr/bin/sleeper": "",
		"usr/lib/systemd/system/greeter.service": "[Service]\nType=oneshot\nRemainAfterExit=yes\n" +
			"ExecStart=/bin/sh -c 'greet > /run/greeted'\nExecStop=rm /run/greeted\n",
	} {
		path := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			data, err := os.ReadFile("/bin/sleep")
			if err != nil {
				t.Fatal(err)
			}
			text = string(data)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	wants := filepath.Join(tree, "usr/lib/systemd/system/multi-user.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../greeter.service", filepath.Join(wants, "greeter.service")); err != nil {
		t.Fatal(err)
	}
	return tree
}

// waitRun repeats a command in a guest until it prints the wanted text.
func (s *site) waitRun(g *testkit.Guest, command, want string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), stepTimeout)
	defer cancel()
	for {
		out, err := g.Run(ctx, command)
		if strings.TrimSpace(out) == want {
			return
		}
		select {
		case <-ctx.Done():
			log, _ := g.Run(
				s.t.Context(),
				"journalctl --no-pager -u pando-agent -u systemd-sysext | tail -30; dmesg | tail -20; cat "+
					"/run/pando/extensions.json; ls -l /run/pando /run/extensions; ps axww | grep '[@]pando'",
			)
			s.t.Fatalf("%s gives %q (%v), want %q\n%s", command, out, err, want, log)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// waitExtensions waits until a node reports exactly these extensions.
func (s *site) waitExtensions(n node, m *testkit.Machine, names ...string) {
	s.t.Helper()
	s.wait(n.name, stepTimeout, m, func(now api.Node) bool {
		if now.Status == nil || now.Boot == nil || !now.Boot.State.Reached() ||
			len(now.Status.Extensions) != len(names) {
			return false
		}
		for i, e := range now.Status.Extensions {
			if e.Name != names[i] {
				return false
			}
		}
		return true
	})
}
