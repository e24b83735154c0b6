package initrd

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/link"
	"pando/internal/problem"
	"pando/internal/rundir"
)

// getAddress gets a lease, configures its address, and stores the lease for the agent, which renews it.
func (n *network) getAddress(ctx context.Context, on Link) (link.Lease, string, error) {
	n.awaitRandom()
	l, err := link.DiscoverAny(ctx, on.Up)
	if err != nil {
		return n.offlineAddress(ctx, on, &problem.Problem{Err: err, Tried: link.Names(on.Up)})
	}
	return l, describeLease(l), n.useLease(l)
}

// awaitRandom waits until the kernel's random numbers are seeded. Without a hardware generator the kernel gathers
// entropy only while a read waits, so polling, as the DHCP client does, would never end.
func (n *network) awaitRandom() {
	var b [1]byte
	if _, err := unix.Getrandom(b[:], unix.GRND_NONBLOCK); err != nil {
		n.timeline.console.logf("address: waits for the kernel to gather random numbers")
		_, _ = rand.Read(b[:]) // never returns an error
	}
}

// offlineAddress uses the address of the last boot. The agent requests a lease again as soon as there is a DHCP
// server.
func (n *network) offlineAddress(ctx context.Context, on Link, err error) (link.Lease, string, error) {
	b := n.lastBoot(ctx, on.Adapters)
	if b == nil {
		return link.Lease{}, "", err
	}
	nic := on.Adapters[nicOf(on.Adapters, b.Lease.MAC)]
	l := reused(b.Lease, nic, rundir.Monotonic())
	return l, "no DHCP server answers; " + l.Address.String() + " as in the last boot", n.useLease(l)
}

// reused returns the lease of the last boot for this one. It counts as expired, so that the agent requests one every
// minute: until T1 or T2 of a long lease the server would not learn for hours that the node runs.
func reused(l link.Lease, nic link.NIC, now time.Duration) link.Lease {
	l.Interface, l.Name, l.Acquired = nic.Index, nic.Name, now-l.Length
	return l
}

// useLease configures a lease's network and stores the lease for the agent.
func (n *network) useLease(l link.Lease) error {
	if n.lease.Address.IsValid() && (n.lease.Address != l.Address || n.lease.Interface != l.Interface) {
		if err := link.RemoveAddress(n.lease.Interface, n.lease.Address); err != nil {
			n.timeline.console.logf("address: %v", err)
		}
	}
	if err := link.Apply(l.Network()); err != nil {
		return err
	}
	if err := rundir.WriteJSON(rundir.Dir, rundir.LeaseName, 0o644, l); err != nil {
		return err
	}
	n.lease = l
	n.timeline.channel.network.Store(true)
	n.timeline.report.Wake()
	return nil
}

func describeLease(l link.Lease) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s from %s", l.Address, l.Name, l.Server)
	for _, r := range l.Routes {
		if !r.To.IsValid() && r.Via.IsValid() {
			fmt.Fprintf(&b, ", router %s", r.Via)
		}
	}
	return b.String()
}
