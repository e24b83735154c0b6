package boot

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

// Measures the costs and benefits of kernel settings on a node in one boot; docs/node-state.md has the results.
func TestRealKernelSettings(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	state, persist := "volume 3GB", []string{"/srv/data"}
	if _, err := s.API.SetGroup(t.Context(), trixie,
		api.GroupSet{Settings: fleet.Settings{Keeping: fleet.Keeping{StateOn: &state,
			Persist: &persist}}}); err != nil {
		t.Fatal(err)
	}
	n := node{
		name:     "pc006",
		mac:      fleet.MAC{0x52, 0x54, 0, 26, 0, 6},
		firmware: testkit.BIOS,
		group:    trixie,
		memory:   3072,
	}
	s.announce(n)
	m, g := s.stateBoot(n)
	s.run(g, "cat > /run/measure <<'EOF'\n"+measureScript+"EOF\n")
	measure := func(args string, tries int) []int64 {
		t.Helper()
		var sum []int64
		for range tries {
			for i, f := range strings.Fields(s.run(g, "sh /run/measure "+args)) {
				v, err := strconv.ParseInt(f, 10, 64)
				if err != nil {
					t.Fatalf("%s: %v", args, err)
				}
				if len(sum) <= i {
					sum = append(sum, 0)
				}
				sum[i] += v / int64(tries)
			}
		}
		t.Logf("%-24s %v", args, sum)
		return sum
	}
	for _, what := range []string{"programs", "files"} {
		measure(what+" 128", 1) // the first comes from the server
		base := measure(what+" 128", 2)
		for _, kb := range []int{0, 16, 32, 64, 256, 1024} {
			got := measure(fmt.Sprintf("%s %d", what, kb), 2)
			t.Logf(
				"  read-ahead of %d kB, to the kernel's 128: %.2f of the bytes, %.2f of the requests, %.2f of the time",
				kb,
				ratio(got[0], base[0]),
				ratio(got[1], base[1]),
				ratio(got[2], base[2]),
			)
		}
	}
	ratios, bytes := measure("dirty 0", 1), measure("dirty 1", 1)
	t.Logf(
		"  bounds in bytes: %.2f of what is not on the server yet, %.2f of the time until it is",
		ratio(bytes[0], ratios[0]),
		ratio(bytes[1], ratios[1]),
	)
	if bytes[0] > 300<<10 {
		t.Errorf("%d kB wait to be written", bytes[0])
	}
	s.powerOff(m)
}

func ratio(a, b int64) float64 { return float64(a) / float64(max(b, 1)) }

// measureScript prints numbers. programs, files READAHEAD: bytes and requests to the root, milliseconds. dirty BYTES:
// the largest amount of unwritten data in kB, milliseconds until it was written.
const measureScript = `
now() { read -r up _ </proc/uptime; echo "${up%.*}${up#*.}0"; }
drop() { sync; echo 3 >/proc/sys/vm/drop_caches; }
stat() { read -r reads _ sectors _ </sys/block/nbd0/stat; }
programs() { for p in 'perl -MPOSIX -e 1' 'ssh -V' 'apt-get --version' 'systemd-analyze --version' 'journalctl -n 20' 'dpkg -l' 'ip a' 'udevadm info /dev/nbd0'; do $p; done >/dev/null 2>&1; }
files() { find /usr/lib/x86_64-linux-gnu /usr/share -xdev -type f | sort | head -n 2500 | xargs cat >/dev/null 2>&1; }
case $1 in
programs | files)
	echo "$2" >/sys/block/nbd0/queue/read_ahead_kb
	drop; stat; r=$reads s=$sectors t=$(now)
	"$1"
	stat; echo $(((sectors - s) * 512)) $((reads - r)) $(($(now) - t))
	echo 32 >/sys/block/nbd0/queue/read_ahead_kb
	;;
dirty)
	if [ "$2" = 0 ]; then
		echo 20 >/proc/sys/vm/dirty_ratio; echo 10 >/proc/sys/vm/dirty_background_ratio
	else
		echo 268435456 >/proc/sys/vm/dirty_bytes; echo 67108864 >/proc/sys/vm/dirty_background_bytes
	fi
	drop; rm -f /srv/data/dirty /run/done
	sh -c 'dd if=/dev/zero of=/srv/data/dirty bs=1M count=1000 2>/dev/null; touch /run/done' &
	most=0
	while [ ! -e /run/done ]; do
		d=$(($(sed -n 's/^\(Dirty\|Writeback\): *\([0-9]*\) kB/\2/p' /proc/meminfo | tr '\n' '+')0))
		[ $d -le $most ] || most=$d
		sleep 0.1
	done
	t=$(now); sync; echo $most $(($(now) - t))
	;;
esac
`
