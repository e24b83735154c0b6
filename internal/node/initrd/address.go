package initrd

import (
	"context"
	"fmt"
	"strings"

	"pando/internal/link"
	"pando/internal/problem"
	"pando/internal/rundir"
)

// getAddress gets a lease and gives the address to the adapter. The lease is kept for the agent, which
// renews it.
func (m *machine) getAddress(ctx context.Context) (string, error) {
	l, err := link.DiscoverAny(ctx, m.nics)
	if err != nil {
		return m.offlineAddress(ctx, &problem.Problem{Err: err, Tried: link.Names(m.nics)})
	}
	if err := m.useLease(l); err != nil {
		return "", err
	}
	return describeLease(l), nil
}

// useLease puts a lease to work and keeps it for the agent.
func (m *machine) useLease(l link.Lease) error {
	if m.lease.Address.IsValid() && (m.lease.Address != l.Address || m.lease.Interface != l.Interface) {
		if err := link.RemoveAddress(m.lease.Interface, m.lease.Address); err != nil {
			m.console.logf("address: %v", err)
		}
	}
	if err := link.Apply(l.Network()); err != nil {
		return err
	}
	if err := rundir.WriteJSON(rundir.Dir, rundir.LeaseName, 0o644, l); err != nil {
		return err
	}
	m.lease = l
	m.channel.network.Store(true)
	m.report.Wake()
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
