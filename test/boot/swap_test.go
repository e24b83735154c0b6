package boot

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

// The memory of the machine and of the program in TestRealSwapOnAVolume, and how long the server is down.
const (
	swapMachine = 768 // MiB
	swapProgram = 900
	swapOutage  = 45 * time.Second
)

// A program that uses more memory than there is has the rest in swap space on the server. It stalls while the server is
// down, continues afterwards, and every page is right. Swap space that the server has lost never returns wrong pages.
// The next boot starts with empty swap space.
func TestRealSwapOnAVolume(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	for i, group := range []string{bookworm, trixie} {
		swap := "volume 2GB"
		if _, err := s.API.SetGroup(t.Context(), group,
			api.GroupSet{Settings: fleet.Settings{Keeping: fleet.Keeping{Swap: &swap}}}); err != nil {
			t.Fatal(err)
		}
		n := node{
			name:     fmt.Sprintf("pc%03d", i+1),
			mac:      fleet.MAC{0x52, 0x54, 0, 37, 0, byte(i + 1)},
			firmware: testkit.BIOS,
			group:    group,
			memory:   swapMachine,
		}
		t.Run(group, func(t *testing.T) { s.in(t).swapOnAVolume(n) })
	}
}

// in returns the site for a subtest.
func (s *site) in(t *testing.T) *site {
	c := *s
	c.t = t
	return &c
}

func (s *site) swapOnAVolume(n node) {
	m := s.boot(n)
	g := s.shell(n)
	s.swapOn(g)
	s.run(
		g,
		"cat > /run/fill.pl <<'EOF'\n"+fillScript+"EOF\nsystemd-run -q --slice=user-1000.slice --unit=fill perl "+
			"/run/fill.pl "+strconv.Itoa(
			swapProgram,
		),
	)
	s.run(g, "until [ $(awk '$1 ~ /nbd4/ {print $4}' /proc/swaps) -gt 102400 ]; do sleep 0.5; done")
	s.swapOutage(n, g)
	begun := time.Now()
	s.filled(g, 1)
	s.t.Logf(
		"%v after the server was back the program had gone through all of its memory; swap space: %s",
		time.Since(begun).Round(time.Second),
		s.swapped(g),
	)
	s.filled(g, 3)
	if got := s.run(g, "cat /run/fill.3; systemctl is-active fill; journalctl -k -b --no-pager | grep -iE "+
		"'oom|(I/O|read|write).error|blocked for' || true"); got != "whole\nactive" {
		s.t.Errorf(
			"the program after an outage: %s\n%s",
			got,
			s.run(g, "systemctl status --no-pager fill; dmesg | tail -50"),
		)
	}
	s.loseSwap(n, g)
	s.cut(m)
	m, booted := s.powerOn(n)
	s.waitUp(n, m)
	booted()
	g = s.shell(n)
	s.swapOn(g)
	if got := s.run(g, "awk '$1 ~ /nbd4/ {print $4}' /proc/swaps; dd if=/dev/nbd4 bs=1M skip=1 status=none | tr "+
		"-d '\\0' | wc -c; systemctl is-system-running --wait"); got != "0\n0\nrunning" {
		s.t.Errorf(
			"the next boot begins with %s\n%s",
			got,
			s.run(g, "systemctl list-units --failed; journalctl -b -p warning --no-pager | tail -30"),
		)
	}
	if files, _ := filepath.Glob(filepath.Join(s.Config.Data, "swap", n.name+"@*.swap")); len(files) != 1 {
		s.t.Errorf("swap space on the server: %v", files)
	}
	s.powerOff(m)
}

// loseSwap makes the server lose the swap space, as a restart of its machine does. The program is killed before it
// reads a wrong byte, and the node gets new swap space.
func (s *site) loseSwap(n node, g *testkit.Guest) {
	s.t.Helper()
	s.t.Logf("the server's machine is restarted: %s swapped", s.swapped(g))
	s.killAll(n)
	files, err := filepath.Glob(filepath.Join(s.Config.Data, "swap", n.name+"@*.swap"))
	if err != nil || len(files) != 1 {
		s.t.Fatalf("swap space on the server: %v, %v", files, err)
	}
	id := strings.Split(files[0], "@")
	if err := os.Rename(files[0], id[0]+"@"+id[1]+"@another.swap"); err != nil {
		s.t.Fatal(err)
	}
	if err := s.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	begun := time.Now()
	s.run(g, "while systemctl -q is-active fill; do sleep 0.5; done")
	// the status is SIGBUS
	if got := s.run(g, "systemctl show -P ExecMainStatus fill; ! grep -l wrong /run/fill.*[0-9]"); got != "7" {
		s.t.Errorf(
			"a program whose memory was lost ended with %s\n%s",
			got,
			s.run(g, "systemctl status --no-pager fill; dmesg | tail -30"),
		)
	}
	s.run(
		g,
		"until awk '$1 ~ /nbd4/ && $4 < 1024' /proc/swaps | grep -q nbd4 && systemctl -q is-active pando-swap && "+
			"[ $(cat /proc/sys/vm/swappiness) = 60 ]; do sleep 0.5; done; systemctl reset-failed fill",
	)
	s.t.Logf("%v after the server was back there is fresh swap space", time.Since(begun).Round(time.Second))
}

// filled waits until the program has checked its memory a number of times, or has ended.
func (s *site) filled(g *testkit.Guest, round int) {
	s.t.Helper()
	for begun := time.Now(); time.Since(begun) < bootTimeout; {
		if s.run(
			g,
			fmt.Sprintf(
				"for i in $(seq 20); do [ ! -e /run/fill.%d ] && systemctl -q is-active fill || { echo over; "+
					"break; }; sleep 0.5; done",
				round,
			),
		) == "over" {
			return
		}
	}
	s.t.Fatalf(
		"the program is not through its memory for time %d within %v; %s\n%s",
		round,
		bootTimeout,
		s.swapped(g),
		s.run(
			g,
			"systemctl status --no-pager fill; grep -E 'Swap|Mem' /proc/meminfo; cat /proc/sys/vm/swappiness; "+
				"dmesg | tail -20",
		),
	)
}

// swapOn waits until the swap space is in use.
func (s *site) swapOn(g *testkit.Guest) {
	s.t.Helper()
	if got := s.run(g, "until grep -q nbd4 /proc/swaps || systemctl -q is-failed pando-swap; do sleep 0.5; done; "+
		"systemctl status --no-pager pando-swap || true"); !strings.Contains(
		got,
		"status=0/SUCCESS",
	) {
		s.t.Fatalf("no swap space:\n%s", got)
	}
}

// swapped returns how much of the swap space is used, on the node and on the server.
func (s *site) swapped(g *testkit.Guest) string {
	s.t.Helper()
	files, _ := filepath.Glob(filepath.Join(s.Config.Data, "swap", "*.swap"))
	var blocks int64
	for _, f := range files {
		var st unix.Stat_t
		if unix.Stat(f, &st) == nil {
			blocks += st.Blocks * 512
		}
	}
	return s.run(
		g,
		"awk '$1 ~ /nbd4/ {print int($4/1024) \" MiB\"}' /proc/swaps",
	) + fmt.Sprintf(
		" on the node, %d MiB on the server",
		blocks>>20,
	)
}

// swapOutage ends the server and its swap daemons, and restarts the server. It runs no command on the node meanwhile:
// its memory is full, and reads of its root would wait, too.
func (s *site) swapOutage(n node, g *testkit.Guest) {
	s.t.Helper()
	s.t.Logf(
		"the server goes away: %s swapped; %s",
		s.swapped(g),
		strings.ReplaceAll(s.run(g, limitsScript), "\n", " | "),
	)
	if got := s.run(g, systemSwapped); got != "" {
		s.t.Errorf("of the system is swapped out:\n%s", got)
	}
	s.killAll(n)
	select {
	case <-s.t.Context().Done():
	case <-time.After(swapOutage):
	}
	if err := s.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// killAll kills the server, and the daemons that serve nodes' swap space.
func (s *site) killAll(nodes ...node) {
	s.t.Helper()
	if err := s.Kill(); err != nil {
		s.t.Fatal(err)
	}
	for _, n := range nodes {
		b, err := os.ReadFile(filepath.Join(s.Config.Data, "swap", n.name+".pid"))
		if err != nil {
			s.t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err == nil {
			err = unix.Kill(pid, unix.SIGKILL)
		}
		if err != nil && err != unix.ESRCH {
			s.t.Fatal(err)
		}
	}
}

// systemSwapped prints system processes that have memory in swap space.
const systemSwapped = `for p in /proc/[0-9]*; do
	case $(cat $p/cgroup 2>/dev/null) in
	*/system.slice* | */init.scope* | */user-0.slice*) awk -v n="$(tr '\0' ' ' <$p/cmdline)" '/^VmSwap/ && $2 > 0 {print $2, n}' $p/status 2>/dev/null ;;
	esac
done; true`

const limitsScript = `cd /sys/fs/cgroup; for f in init.scope/memory.min init.scope/memory.swap.max system.slice/memory.min system.slice/memory.swap.max system.slice/memory.current \
	user.slice/memory.high user.slice/user-1000.slice/memory.high user.slice/user-1000.slice/memory.current user.slice/user-0.slice/memory.high user.slice/user-0.slice/memory.swap.max; do echo $f $(cat $f); done
	free -m | tail -2; cat /proc/sys/vm/min_free_kbytes; grep -E 'Vm(Lck|RSS)' /proc/$(pgrep -f '^@pando-volume swap')/status`

// fillScript fills MiB of memory with pages that all differ, and checks them in a loop. After each round it writes a
// file with the result.
const fillScript = `
my $n = shift;
sub mib { my $i = shift; join '', map { sprintf('%016d', $i * 256 + $_) x 256 } 0 .. 255 }
my @m;
push @m, mib($_) for 0 .. $n - 1;
for (my $round = 1; ; $round++) {
	my $bad = 0;
	for my $i (0 .. $n - 1) { $bad++ if $m[$i] ne mib($i) }
	open my $f, '>', "/run/fill.new" or die;
	print $f $bad ? "$bad MiB are wrong\n" : "whole\n";
	close $f;
	rename '/run/fill.new', "/run/fill.$round";
}
`
