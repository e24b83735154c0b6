package lease

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
	"pando/internal/link"
)

// renewRole makes the test binary the client. It runs in a network namespace of its own, so that the sockets of all its
// threads are in there.
const renewRole = "PANDO_TEST_RENEW"

// TestRenewAgainstDnsmasq gets an address from a foreign server and renews it in each of the ways.
func TestRenewAgainstDnsmasq(t *testing.T) {
	if os.Getenv(renewRole) != "" {
		renewAll(t)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	for _, tool := range []string{"ip", "dnsmasq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	server, client := fmt.Sprintf("prs%d", os.Getpid()), fmt.Sprintf("prc%d", os.Getpid())
	for _, ns := range []string{server, client} {
		ip(t, "netns", "add", ns)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", ns).Run() })
	}
	ip(t, "-n", server, "link", "add", "s0", "type", "veth", "peer", "name", "c0", "netns", client)
	ip(t, "-n", server, "addr", "add", "10.77.0.1/24", "dev", "s0")
	ip(t, "-n", server, "link", "set", "s0", "up")
	ip(t, "-n", client, "link", "set", "lo", "up")
	startDnsmasq(t, server)
	cmd := exec.Command("ip", "netns", "exec", client, os.Args[0], "-test.run=^TestRenewAgainstDnsmasq$", "-test.v")
	cmd.Env = append(os.Environ(), renewRole+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "no tests to run") {
		t.Errorf("client: %v\n%s", err, out)
	}
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %v: %s", args, err, out)
	}
}

func startDnsmasq(t *testing.T, ns string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("ip", "netns", "exec", ns, "dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0",
		"--interface=s0", "--bind-interfaces", "--user=root", "--dhcp-authoritative", "--no-ping",
		"--dhcp-leasefile="+filepath.Join(dir, "leases"), "--pid-file="+filepath.Join(dir, "pid"),
		"--dhcp-range=10.77.0.50,10.77.0.60,10m", "--dhcp-option=option:router,10.77.0.1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// renewAll runs on the client's side.
func renewAll(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	i, err := net.InterfaceByName("c0")
	if err != nil {
		t.Fatal(err)
	}
	n := link.NIC{Index: i.Index, Name: i.Name, MAC: fleet.MAC(i.HardwareAddr)}
	if err := link.Up(n.Index); err != nil {
		t.Fatal(err)
	}
	l, err := link.DiscoverAny(ctx, []link.NIC{n})
	if err != nil {
		t.Fatal(err)
	}
	if err := link.Apply(l.Network()); err != nil {
		t.Fatal(err)
	}
	if l.Server != netip.MustParseAddr("10.77.0.1") || l.Length != 10*time.Minute || l.Address.Bits() != 24 {
		t.Errorf("lease %+v", l)
	}
	for _, how := range []renewal{ask, askAll, discover} {
		again, err := renew(ctx, l, how)
		if err != nil {
			t.Errorf("renewal %d: %v", how, err)
			continue
		}
		if again.Address != l.Address || again.Acquired <= l.Acquired {
			t.Errorf("renewal %d gave %+v after %+v", how, again, l)
		}
	}
	keepsOnDisk(t, l)
	if err := link.RemoveAddress(l.Interface, l.Address); err != nil {
		t.Error(err)
	}
	if err := link.RemoveAddress(l.Interface, l.Address); err != nil {
		t.Errorf("removing an address that is gone: %v", err)
	}
}

// keepsOnDisk checks that the agent reads the lease that init wrote.
func keepsOnDisk(t *testing.T, l link.Lease) {
	t.Helper()
	data, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var back link.Lease
	if err := json.Unmarshal(data, &back); err != nil || back.Address != l.Address || back.Renew != l.Renew ||
		len(back.Routes) != len(l.Routes) {
		t.Errorf("lease %s reads as %+v, %v", data, back, err)
	}
}
