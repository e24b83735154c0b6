package boot

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

const (
	settingsOutage = 40 * time.Second  // how long the server is down
	settingsWait   = 100 * time.Second // how long a node may take to answer afterwards
)

// Measures the effect of each setting that comes with swap space on a volume, with a large program and an outage;
// docs/node-state.md has the results. Each round leaves one setting out. Only the round with all settings can fail,
// because the others may end in a machine that never answers again.
func TestRealSwapSettings(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	swap := "volume 2GB"
	for _, group := range []string{bookworm, trixie} {
		if _, err := s.API.SetGroup(t.Context(), group,
			api.GroupSet{Settings: fleet.Settings{Keeping: fleet.Keeping{Swap: &swap}}}); err != nil {
			t.Fatal(err)
		}
	}
	nodes := s.both(38, swapMachine)
	var up []booted
	for _, without := range []string{"nothing", "min", "swappiness", "high", "swap", "service", "service swap",
		"swap high min swappiness"} {
		if up == nil {
			up = s.bootBoth(nodes...)
			for _, n := range up {
				s.swapOn(n.g)
				s.run(
					n.g,
					"cat >/run/settings <<'EOF'\n"+settingsScript+"EOF\ncat >/run/fill.pl "+
						"<<'EOF'\n"+quickFill+"EOF\nsh /run/settings first",
				)
			}
		}
		if s.settingsRound(up, without) {
			continue
		}
		if without == "nothing" {
			t.Error("a node does not answer after an outage")
		}
		for _, n := range up {
			s.cut(n.m)
		}
		up = nil
	}
}

// settingsRound fills the memory of both nodes, stops the server for a while, and reports whether both nodes answer
// afterwards.
func (s *site) settingsRound(up []booted, without string) bool {
	s.t.Helper()
	output := make([]string, len(up))
	each(up, func(i int, n booted) {
		output[i] = try(
			s.t.Context(),
			n.g,
			stepTimeout,
			"sh /run/settings fill "+without,
		) + try(
			s.t.Context(),
			n.g,
			stepTimeout,
			"sh /run/settings go",
		)
	})
	var nodes []node
	login := make([]func() string, len(up))
	for i, n := range up {
		nodes = append(nodes, n.node)
		login[i] = s.loginDuring(n.node)
	}
	s.killAll(nodes...)
	away := time.Now()
	answers := make([]bool, len(up))
	var back time.Time
	each(up, func(i int, n booted) {
		time.Sleep(5 * time.Second)
		l := login[i]
		done := make(chan string, 1)
		go func() { done <- l() }()
		got := try(s.t.Context(), n.g, settingsOutage+settingsWait, "echo here")
		output[i] += fmt.Sprintf("a shell says %q after %.1f s, ", got, time.Since(away).Seconds()-5)
		output[i] += <-done
		answers[i] = !strings.Contains(output[i], "deadline")
	}, func() {
		time.Sleep(settingsOutage)
		if err := s.Start(s.t.Context()); err != nil {
			s.t.Error(err)
		}
		back = time.Now()
	})
	each(up, func(i int, n booted) {
		if answers[i] {
			got := try(s.t.Context(), n.g, settingsWait, "sh /run/settings after")
			answers[i] = !strings.Contains(got, "deadline")
			output[i] += fmt.Sprintf("; %.1f s after the server was back: %s", time.Since(back).Seconds(), got)
		}
	})
	all := true
	for i, n := range up {
		s.t.Logf("%s, without %s: %s", n.group, without, output[i])
		all = all && answers[i]
	}
	return all
}

// loginDuring starts a new login. Its result says how long the login took.
func (s *site) loginDuring(n node) func() string {
	s.t.Helper()
	addr, err := s.Address(s.t.Context(), n.mac)
	if err != nil {
		s.t.Fatal(err)
	}
	host, err := s.HostKey(n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	return func() string {
		begun := time.Now()
		ctx, cancel := context.WithTimeout(s.t.Context(), settingsOutage+settingsWait)
		defer cancel()
		g, err := testkit.DialGuest(ctx, testkit.GuestConfig{Net: s.net, Addr: addr, Key: loginKey, HostKey: host})
		if err == nil {
			_, err = g.Run(ctx, "id")
			g.Close()
		}
		return fmt.Sprintf("a login took %.1f s (%v)", time.Since(begun).Seconds(), err)
	}
}

// each calls do for all nodes, and the functions also, all at the same time.
func each(up []booted, do func(int, booted), also ...func()) {
	var wait sync.WaitGroup
	for i, n := range up {
		wait.Go(func() { do(i, n) })
	}
	for _, f := range also {
		wait.Go(f)
	}
	wait.Wait()
}

// try returns the output of a command in one line, or why there is none.
func try(ctx context.Context, g *testkit.Guest, limit time.Duration, command string) string {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := g.Run(ctx, command)
	if err != nil {
		out += " " + err.Error()
	}
	return strings.Join(strings.Fields(out), " ") + " "
}

// settingsScript removes settings, and measures. first: preparation. fill WHAT...: 100 MiB of a program are swapped
// out, without some settings. go: the program continues, and ten seconds later a service wants 60 MiB. after: the
// result, 45 seconds later.
const settingsScript = `
cd /sys/fs/cgroup
files="init.scope/memory.swap.max system.slice/memory.swap.max user.slice/user-0.slice/memory.swap.max user.slice/memory.high init.scope/memory.min system.slice/memory.min"
now() { read -r up _ </proc/uptime; echo "${up%%.*}"; }
used() { awk '$1 ~ /nbd4/ {print int($4/1024)}' /proc/swaps; }
root() { awk '{print int($3/2048)}' /sys/block/nbd0/stat; }
off() { for f in $files user.slice/user-1000.slice/memory.high; do case $f in *.$1) echo $2 >$f ;; esac; done; }
case $1 in
first)
	for f in $files; do echo "$f $(cat $f)"; done >/run/settings.was
	echo 'while (1) { open U, "/proc/uptime"; $u = <U>; close U; open F, ">>/run/beat"; print F $u; close F; select undef, undef, undef, 0.5 }' >/run/beat.pl
	echo 'sub up { open U, "/proc/uptime"; my $u = <U>; close U; (split / /, $u)[0] } sleep 10; my $t = up(); my $x = ""; $x .= "x" x (1 << 20) for 1 .. 60; open F, ">/run/want"; print F int(up() - $t); close F; sleep 1000' >/run/want.pl
	;;
fill)
	systemctl stop fill beat want 2>/dev/null; systemctl reset-failed 2>/dev/null
	rm -f /run/fill.[0-9]* /run/beat /run/want /run/go
	umount /proc/sys/vm/swappiness 2>/dev/null; echo 60 >/proc/sys/vm/swappiness
	while read -r f v; do echo $v >$f; done </run/settings.was
	swapoff /dev/nbd4; swapon --discard /dev/nbd4
	systemd-run -q --unit=beat perl /run/beat.pl
	slice=user-1000.slice
	case " $* " in *" service "*) slice=system.slice ;; esac
	systemd-run -q --slice=$slice --unit=fill perl /run/fill.pl 900
	shift
	for w; do case $w in
	swap) off swap.max max ;;
	high) off high max ;;
	min) off min 0 ;;
	swappiness) echo 60 >/run/swappiness; mount --bind /run/swappiness /proc/sys/vm/swappiness ;;
	esac; done
	t=$(now) r=$(root); touch /run/go
	until [ $(used) -gt 100 ] || ! systemctl -q is-active fill; do sleep 0.2; done
	systemctl kill -s STOP fill
	echo "$(used) MiB after $(($(now) - t)) s, fill $(systemctl is-active fill), $(($(root) - r)) MiB of the root read,"
	for g in init.scope system.slice user.slice/user-0.slice; do echo "$(($(cat $g/memory.swap.current) >> 10)) kB of $g,"; done
	awk '/VmSwap/ {print $2 " kB of process 1 swapped;"}' /proc/1/status
	awk '/MemFree|^Cached/ {print $1, int($2/1024)}' /proc/meminfo
	;;
go)
	systemd-run -q --unit=want perl /run/want.pl
	systemctl kill -s CONT fill
	;;
after)
	sleep 45
	echo "$(used) MiB swapped, rounds: $(ls /run/fill.[0-9]* 2>/dev/null | wc -l), fill $(systemctl is-active fill),"
	awk '{if (NR > 1 && $1 - l > m) m = $1 - l; l = $1} END {print "longest pause of a service", m}' /run/beat
	echo "60 MiB for a service took $(cat /run/want) ($(systemctl is-active want)); $(cat $files user.slice/user-1000.slice/memory.high | paste -sd,)"
	echo "swappiness $(cat /proc/sys/vm/swappiness), root read $(root) MiB in all, killed in this boot $(dmesg | grep -ciE 'out of memory|oom-kill')"
	;;
esac
`

// quickFill is fillScript with pages that are generated faster.
const quickFill = `
my $n = shift;
my $base; open my $r, '<', '/dev/urandom' or die; read $r, $base, 1 << 20; close $r;
sub mib { my $i = shift; my $b = $base; substr($b, $_ * 4096, 8) = pack 'Q', $i * 256 + $_ for 0 .. 255; $b }
select undef, undef, undef, 0.2 until -e '/run/go';
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
