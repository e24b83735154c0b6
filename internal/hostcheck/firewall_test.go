package hostcheck

import (
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pando/internal/api"
)

// inNamespace runs f in a new network namespace with an interface eth1, 10.79.0.1/24.
func inNamespace(t *testing.T, f func(run func(command string))) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("ip is not installed")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with its namespace
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("unshare: %v", err)
			return
		}
		run := func(command string) {
			if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", command, err, out)
			}
		}
		run("ip link set lo up; ip link add eth1 type veth peer name far; ip address add 10.79.0.1/24 dev eth1; " +
			"ip link set eth1 up; ip link set far up")
		f(run)
	}()
	<-done
}

// TestFirewall: rules that keep nodes out are found, whichever tool made them, and other rules are not reported.
func TestFirewall(t *testing.T) {
	const chain = "nft add table inet f; nft 'add chain inet f input { type filter hook input priority 0; }'; "
	const closed = "nft add table inet f; nft 'add chain inet f input { type filter hook input priority 0; policy " +
		"drop; }'; nft add rule inet f input ct state established accept; "
	const stateless = "nft add table inet f; nft 'add chain inet f input { type filter hook input priority 0; policy " +
		"drop; }'; "
	all := "ok: packets of nodes on eth1 arrive at 67/udp, 69/udp, 4011/udp, 8480/tcp, 8443/tcp\n"
	const drops, refuses = "warning: the firewall drops what nodes on eth1 send to ",
		"warning: the firewall refuses what nodes on eth1 send to "
	for _, k := range []struct{ name, tool, rules, want string }{
		{"no rules", "ip", "true", all},
		{"nft drops a port", "nft", chain + "nft add rule inet f input tcp dport 8480 drop", drops + "8480/tcp\n"},
		{"nft rejects a port", "nft", chain + "nft add rule inet f input udp dport 69 reject", refuses + "69/udp\n"},
		{"nft resets", "nft", chain + "nft add rule inet f input tcp dport 8443 reject with tcp reset",
			refuses + "8443/tcp\n"},
		{"policy drop", "nft", closed,
			drops + "67/udp, 69/udp, 4011/udp, 8480/tcp, 8443/tcp\n"},
		{"policy drop, the interface accepted", "nft", closed + "nft add rule inet f input iifname eth1 accept", all},
		{"policy drop, the network accepted", "nft", closed + "nft add rule inet f input ip saddr 10.79.0.0/24 accept",
			drops + "67/udp\n"},
		{"policy drop, ports accepted", "nft", closed + "nft add rule inet f input udp dport '{ 67, 69, 4011 }' " +
			"accept; nft add rule inet f input tcp dport 8000-9000 accept", all},
		{"no connection tracking, ports accepted", "nft", stateless +
			"nft add rule inet f input udp dport '{ 67, 69, 4011 }' accept; " +
			"nft add rule inet f input tcp dport '{ 8480, 8443 }' accept",
			"warning: the firewall lets in what nodes on eth1 send to 69/udp, and drops their acknowledgements: " +
				"TFTP sends each file from a port of its own\n"},
		{"another port dropped", "nft", chain + "nft add rule inet f input tcp dport 22 drop", all},
		{"iptables", "iptables", "iptables -A INPUT -p udp --dport 69 -j REJECT", refuses + "69/udp\n"},
		{"legacy tables", "iptables-legacy", "iptables-legacy -A INPUT -p tcp --dport 8480 -j DROP",
			drops + "8480/tcp\n"},
	} {
		t.Run(k.name, func(t *testing.T) {
			if _, err := exec.LookPath(k.tool); err != nil {
				t.Skip(k.tool + " is not installed")
			}
			inNamespace(t, func(run func(string)) {
				run(k.rules)
				if got := texts(probeFirewall("eth1", "/proc/thread-self", usualPorts())); got != k.want {
					t.Errorf("got %swant %s", got, k.want)
				}
				run("! ip link show " + tapName + " 2>/dev/null")
			})
		})
	}
}

// TestFirewallOfOtherPorts: the ports of the running server are tried, only on its interfaces and at its addresses.
func TestFirewallOfOtherPorts(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("nft is not installed")
	}
	here, other := netip.MustParseAddr("10.79.0.2"), netip.MustParseAddr("10.80.0.1")
	ports := []api.Port{
		{Net: "udp", Number: 67, Interfaces: []string{"eth0", "eth1"}},
		{Net: "udp", Number: 4011, Interfaces: []string{"eth0"}},
		{Net: "udp", Number: 6969, Use: "TFTP"}, {Net: "tcp", Number: 9000}, {Net: "tcp", Number: 9001, Address: here},
		{Net: "tcp", Number: 9002, Address: other},
	}
	inNamespace(t, func(run func(string)) {
		run("ip address add 10.79.0.2/24 dev eth1; nft add table inet f; " +
			"nft 'add chain inet f input { type filter hook input priority 0; }'")
		got := texts(probeFirewall("eth1", "/proc/thread-self", ports))
		if want := "ok: packets of nodes on eth1 arrive at 67/udp, 6969/udp, 9000/tcp, 9001/tcp\n"; got != want {
			t.Errorf("got %swant %s", got, want)
		}
		run("nft add rule inet f input tcp dport 9000 drop; nft add rule inet f input ip daddr 10.79.0.2 drop")
		got = texts(probeFirewall("eth1", "/proc/thread-self", ports))
		if want := "warning: the firewall drops what nodes on eth1 send to 9000/tcp, 9001/tcp\n"; got != want {
			t.Errorf("got %swant %s", got, want)
		}
	})
}

// A firewall that cannot be checked is reported as not checked.
func TestFirewallNotChecked(t *testing.T) {
	got := probeFirewall("nosuch0", "/proc", usualPorts())
	if text := texts(got); len(got) != 1 || !strings.HasPrefix(text, "note: ") ||
		!strings.Contains(text, "could not be checked") || got[0].Fix == "" {
		t.Errorf("%s", text)
	}
}

func FuzzAnswered(f *testing.F) {
	a, b := netip.MustParseAddrPort("10.79.0.1:67"), netip.MustParseAddrPort("10.79.0.9:68")
	f.Add(append(ethernet(probeMAC, probeMAC[:], 0x0800), segment(protoUDP, a, b, []byte("x"))...))
	f.Add(append(ethernet(probeMAC, probeMAC[:], 0x0800), segment(protoTCP, a, b, nil)...))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if a, ok := answered(frame, b.Addr()); a.open && !ok {
			t.Error("open, and no answer")
		}
	})
}

// TestProbesOfTwoProcesses: what is still answered to one process is no answer to the next.
func TestProbesOfTwoProcesses(t *testing.T) {
	a, b := int(firstPort(4711)), int(firstPort(4712))
	if n := len(usualPorts()); max(a, b)-min(a, b) < n || firstPort(1<<22-1) < firstClient {
		t.Errorf("ports from %d and from %d", a, b)
	}
}
