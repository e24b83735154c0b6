package boot

import (
	"bufio"
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// TestRealSoftReboot: a node switches to another version and back with its running kernel. Nothing of the old root
// stays open.
func TestRealSoftReboot(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	// Debian 13's sshd blocks clients that connect often without a login; watchSSH does that.
	s.command(
		"image",
		"shell",
		trixie,
		"--",
		"sh",
		"-euc",
		"echo PerSourcePenalties no > /etc/ssh/sshd_config.d/look.conf",
	)
	good := s.pin(trixie)
	n := node{
		name:     "pc001",
		mac:      fleet.MAC{0x52, 0x54, 0, 32, 0, 1},
		firmware: testkit.BIOS,
		group:    trixie,
		memory:   1536,
	}
	m := s.boot(n)
	s.run(s.shell(n), "systemctl is-system-running --wait; test ! -e /etc/second")
	s.command("image", "shell", string(good), "--tag", "next", "--", "sh", "-euc", "echo next > /etc/second")
	s.tracedOf(good, n, m)
	s.rebootBy(n, m, fleet.MethodReboot) // for comparison, and as the second boot for the boot pack
	s.run(s.shell(n), "systemctl is-system-running --wait; echo gone > /etc/mine")
	kernel := s.run(s.shell(n), "cat /proc/sys/kernel/random/boot_id")
	s.tracedOf(good, n, m)
	s.waitPack(n)

	next := fleet.Ref(trixie + ":next")
	for round, ref := range []fleet.Ref{next, good} {
		if _, err := s.API.SetGroup(t.Context(), n.group, api.GroupSet{Image: &ref}); err != nil {
			t.Fatal(err)
		}
		s.waitPack(n) // the pack of the previous version was carried over
		if round == 0 {
			s.stage(n, m)
		}
		s.rebootBy(n, m, fleet.MethodSoftReboot)
		g := s.shell(n)
		want := "next"
		if round == 1 {
			want = "none"
		}
		if got := s.run(g, "cat /etc/second 2>/dev/null || echo none; cat /etc/mine 2>/dev/null; true"); got != want {
			t.Errorf("round %d: %q, want %q", round, got, want)
		}
		if got := s.run(g, "cat /proc/sys/kernel/random/boot_id"); got != kernel {
			t.Errorf("round %d: another kernel runs", round)
		}
		s.healthy(g)
		s.alone(n, g)
		const bad = "journalctl -k --no-pager | grep -iE 'i/o error|erofs: .*failed|hung_task|BUG:|dead " +
			"connection' || true"
		if out := s.run(g, bad); out != "" {
			t.Errorf("round %d: %s", round, out)
		}
	}
	s.byItself(n)
	s.rebootBy(n, m, fleet.MethodKexec) // for comparison
	s.powerOff(m)
}

// TestRealSoftRollout: a rollout with the method auto brings a node to another version with its running kernel.
func TestRealSoftRollout(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	s.command(
		"image",
		"shell",
		trixie,
		"--",
		"sh",
		"-euc",
		"echo first > /etc/second",
	) // drivers are packed by a shell
	good := s.pin(trixie)
	s.command("image", "shell", string(good), "--tag", "next", "--", "sh", "-euc", "echo next > /etc/second")
	n := node{
		name:     "pc001",
		mac:      fleet.MAC{0x52, 0x54, 0, 33, 0, 1},
		firmware: testkit.BIOS,
		group:    trixie,
		memory:   1536,
	}
	m := s.boot(n)
	s.told([]node{n}, []*testkit.Machine{m})
	s.command("rollout", "start", "@"+n.group, "--image", trixie+":next", "--method", "auto")
	code, out := s.watchRollout(n.group)
	b, err := s.API.NodeBoot(t.Context(), n.name)
	soft := slices.ContainsFunc(
		b.Events,
		func(e trace.Event) bool { return e.Stage == trace.Script && strings.Contains(e.Message, "soft-reboot") },
	)
	if code != 0 || err != nil || !soft {
		t.Errorf("exit code %d, by soft-reboot: %v, %v\n%s", code, soft, err, out)
	}
	g := s.shell(n)
	if got := s.run(g, "cat /etc/second"); got != "next" {
		t.Errorf("second: %q", got)
	}
	s.healthy(g)
	s.alone(n, g)
}

// stage makes a node fetch its next version, and waits until the node reports it as staged.
func (s *site) stage(n node, m *testkit.Machine) {
	s.t.Helper()
	started := time.Now()
	if _, err := s.API.SwitchNode(s.t.Context(), n.name, api.PowerDo{Action: api.PowerStage}); err != nil {
		s.t.Fatal(err)
	}
	s.wait(
		n.name,
		bootTimeout,
		m,
		func(now api.Node) bool { return now.Status != nil && now.Status.Staged == now.Desired },
	)
	s.t.Logf("staged after %s", time.Since(started).Round(time.Second))
}

// rebootBy makes a node boot by a method, waits until it runs what it should, and logs how long ssh was unavailable.
func (s *site) rebootBy(n node, m *testkit.Machine, method fleet.BootMethod) {
	s.t.Helper()
	before, err := s.API.NodeBoot(s.t.Context(), n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	addr, err := s.Address(s.t.Context(), n.mac)
	if err != nil {
		s.t.Fatal(err)
	}
	away := s.watchSSH(addr)
	started := time.Now()
	if done, err := s.API.SwitchNode(s.t.Context(), n.name, api.PowerDo{Action: api.PowerAction(method)}); err != nil ||
		done.Did == "" {
		s.t.Fatalf("%+v, %v", done, err)
	}
	asked := time.Since(started)
	s.wait(n.name, bootTimeout, m, func(now api.Node) bool {
		return now.Boot != nil && now.Boot.ID != before.ID && now.Boot.State.Reached() && now.Running == now.Desired
	})
	s.t.Logf(
		"%s: asked for %s, up %s after that; ssh was away for %s",
		method,
		asked.Round(time.Second),
		(time.Since(started) - asked).Round(time.Second),
		away(),
	)
	after, err := s.API.NodeBoot(s.t.Context(), n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range after.Events {
		if e.Kind == trace.End {
			s.t.Logf("%8s %-10s %s", e.Time.Sub(after.Started).Round(100*time.Millisecond), e.Stage, e.Message)
		}
		if method != fleet.MethodSoftReboot {
			continue
		}
		if e.Stage == trace.BootFile || e.Stage == trace.DHCP || e.Stage == trace.Kernel {
			s.t.Errorf("firmware had a part in boot %s: %s %s", after.ID, e.Stage, e.Message)
		}
	}
}

// byItself makes systemd do its own soft reboot into the same root, without Pando, and logs how long ssh was
// unavailable: this is the minimum for any soft reboot on this machine. The node is healthy afterwards.
func (s *site) byItself(n node) {
	s.t.Helper()
	addr, err := s.Address(s.t.Context(), n.mac)
	if err != nil {
		s.t.Fatal(err)
	}
	g := s.shell(n)
	away := s.watchSSH(addr)
	s.run(g, "systemctl --no-block soft-reboot")
	time.Sleep(2 * time.Second) // systemd needs a moment
	s.t.Logf("systemctl soft-reboot, by hand: ssh was away for %s", away())
	g = s.shell(n)
	s.healthy(g)
	s.alone(n, g)
	if got := s.run(g, "systemctl show -P SoftRebootsCount"); strings.TrimSpace(got) != "3" {
		s.t.Errorf("%s soft reboots", got)
	}
}

// alone waits until the node has one root device and one pair of daemons.
func (s *site) alone(n node, g *testkit.Guest) {
	s.t.Helper()
	const look = `for i in $(seq 60); do
		d=$(for n in /sys/block/nbd*; do test "$(cat $n/size)" = 0 || echo $n; done | wc -l); p=$(pgrep -fc '^@pando' || true)
		test "$d $p" = "1 2" && exit; sleep 1; done; echo "$d devices, $p daemons"; grep nbd /proc/mounts; ps axww; journalctl --no-pager -u pando-agent | tail -20`
	if out := strings.TrimSpace(s.run(g, look)); out != "" {
		s.t.Errorf("%s: %s", n.name, out)
	}
}

// watchSSH requests the ssh server's first line repeatedly. away waits until it answers, stops that, and returns the
// longest time without an answer.
func (s *site) watchSSH(addr netip.Addr) (away func() time.Duration) {
	const every = 100 * time.Millisecond
	ctx, cancel := context.WithCancel(s.t.Context())
	var all sync.WaitGroup
	var longest time.Duration
	last := time.Now()
	answered := func(ctx context.Context) bool {
		if !s.sshAnswers(ctx, addr) {
			return false
		}
		longest, last = max(longest, time.Since(last)), time.Now()
		return true
	}
	all.Go(func() {
		for ctx.Err() == nil {
			answered(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(every):
			}
		}
	})
	return func() time.Duration {
		cancel()
		all.Wait()
		for until := time.Now().Add(bootTimeout); !answered(s.t.Context()) && time.Now().Before(until); {
			time.Sleep(every)
		}
		return longest.Round(every)
	}
}

func (s *site) sshAnswers(ctx context.Context, addr netip.Addr) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := s.net.Dial(ctx, "tcp", net.JoinHostPort(addr.String(), "22"))
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
	line, _ := bufio.NewReader(c).ReadString('\n')
	return strings.HasPrefix(line, "SSH-2.0-")
}
