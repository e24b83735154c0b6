package blockd

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/fleet"
	"pando/internal/link"
)

// inNetns runs the rest of the test in its own network namespace with one interface. The namespace ends with the
// thread.
func inNetns(t *testing.T) (netlink.Link, link.Network) {
	t.Helper()
	if unix.Geteuid() != 0 {
		t.Skip("a network namespace needs root")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	n := link.Network{Name: "nic0", MAC: fleet.MAC{2, 0, 0, 0, 0, 9}, MTU: 1400,
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/24")},
		Routes: []link.Route{{Via: netip.MustParseAddr("192.0.2.1")},
			{To: netip.MustParsePrefix("198.51.100.0/24"), Via: netip.MustParseAddr("192.0.2.2"), Metric: 50}}}
	eth := addInterface(t, n)
	n.Interface = eth.Attrs().Index
	if err := link.Repair(n); err != nil {
		t.Fatal(err)
	}
	return eth, n
}

func addInterface(t *testing.T, n link.Network) netlink.Link {
	t.Helper()
	a := netlink.NewLinkAttrs()
	a.Name, a.HardwareAddr = n.Name, net.HardwareAddr(n.MAC[:])
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: n.Name + "p"}); err != nil {
		t.Skipf("no veth interfaces in this kernel: %v", err)
	}
	eth, err := netlink.LinkByName(n.Name)
	if err != nil {
		t.Fatal(err)
	}
	return eth
}

// Everything that is removed is noticed and restored. What is intact is left alone.
func TestNetMonitorPutsBack(t *testing.T) {
	eth, n := inNetns(t)
	l := testLedger(t)
	k := newNetMonitor(n, l, slog.New(slog.DiscardHandler))
	addr := func() *netlink.Addr { return &netlink.Addr{IPNet: link.IPNet(n.Addresses[0])} }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	drop := func(to string) {
		t.Helper()
		routes, err := netlink.RouteListFiltered(
			netlink.FAMILY_V4,
			&netlink.Route{LinkIndex: n.Interface},
			netlink.RT_FILTER_OIF,
		)
		must(err)
		for _, r := range routes {
			if r.Dst.String() == to {
				must(netlink.RouteDel(&r))
			}
		}
	}
	for i, c := range []struct {
		name string
		take func()
		want []string // expected parts of the report
	}{
		{"nothing", func() {}, nil},
		{"link down", func() { must(netlink.LinkSetDown(eth)) }, []string{"link", "route to 0.0.0.0/0"}},
		{"address", func() { must(netlink.AddrDel(eth, addr())) }, []string{"address 192.0.2.7/24"}},
		{"default route", func() { drop("0.0.0.0/0") }, []string{"route to 0.0.0.0/0 via 192.0.2.1"}},
		{"other route", func() { drop("198.51.100.0/24") }, []string{"198.51.100.0/24"}},
		{"subnet's route", func() { drop("192.0.2.0/24") }, []string{"route to 192.0.2.0/24"}},
		{"everything", func() {
			must(netlink.LinkSetDown(eth))
			must(netlink.AddrDel(eth, addr()))
		}, []string{"link", "address", "route"}},
	} {
		before := l.get(countLinkFixes)
		c.take()
		_, gone, err := link.Missing(n)
		must(err)
		for _, w := range c.want {
			if !strings.Contains(strings.Join(gone, ", "), w) {
				t.Errorf("%s: seen as missing: %q, want %q among them", c.name, gone, w)
			}
		}
		k.look()
		if _, gone, err := link.Missing(n); err != nil || len(gone) > 0 {
			t.Errorf("%s: still missing: %q, %v", c.name, gone, err)
		}
		if fixed := l.get(countLinkFixes) - before; fixed != int64(min(i, 1)) {
			t.Errorf("%s: %d repairs", c.name, fixed)
		}
	}
	if got := l.incidents(0); len(got) == 0 || got[0].Kind != blockapi.LinkFixed ||
		!strings.Contains(got[0].Message, "put back") {
		t.Errorf("incidents %+v", got)
	}
}

// An interface that comes back with another index, as after a reload of its driver, is found by its MAC.
func TestNetMonitorFindsTheInterfaceAgain(t *testing.T) {
	eth, n := inNetns(t)
	l := testLedger(t)
	k := newNetMonitor(n, l, slog.New(slog.DiscardHandler))
	if err := netlink.LinkDel(eth); err != nil {
		t.Fatal(err)
	}
	k.look()
	if got := l.incidents(0); len(got) != 1 || !strings.Contains(got[0].Message, "is gone") {
		t.Errorf("incidents %+v, want one that says that the interface is gone", got)
	}
	other := n
	other.Name, other.MAC = "other0", fleet.MAC{2, 0, 0, 0, 0, 10}
	addInterface(t, other)
	again := addInterface(t, n)
	k.look()
	n.Interface = again.Attrs().Index
	if got := k.wanted().Interface; got != n.Interface {
		t.Errorf("keeps interface %d, want %d", got, n.Interface)
	}
	if _, gone, err := link.Missing(n); err != nil || len(gone) > 0 {
		t.Errorf("still missing: %q, %v", gone, err)
	}
}

// The monitor reacts to the kernel's events, long before its timer, and follows a new lease.
func TestNetMonitorFollowsEvents(t *testing.T) {
	eth, n := inNetns(t)
	ns, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	k := newNetMonitor(n, testLedger(t), slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := netns.Set(ns); err != nil {
			t.Error(err)
			return
		}
		k.run(ctx)
	}()
	defer func() { cancel(); <-done }()
	whole := func(n link.Network) {
		t.Helper()
		for range 500 {
			if _, gone, err := link.Missing(n); err == nil && len(gone) == 0 {
				return
			}
			<-time.After(10 * time.Millisecond)
		}
		t.Error("not put back within 5 s")
	}
	if err := netlink.LinkSetDown(eth); err != nil {
		t.Fatal(err)
	}
	whole(n)
	n.Addresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.8/24")}
	k.set(n)
	whole(n)
}
