package boot

import (
	"context"
	"fmt"
	"strings"
)

// getAddress gets a lease and gives the address to the adapter. The lease is kept for the agent, which
// renews it.
func (m *machine) getAddress(ctx context.Context) (string, error) {
	l, err := discoverAny(ctx, m.nics)
	if err != nil {
		return m.offlineAddress(ctx, &Problem{Err: err, Tried: nicNames(m.nics)})
	}
	if err := m.useLease(l); err != nil {
		return "", err
	}
	return describeLease(l), nil
}

// useLease puts a lease to work and keeps it for the agent.
func (m *machine) useLease(l lease) error {
	if m.lease.Address.IsValid() && (m.lease.Address != l.Address || m.lease.Interface != l.Interface) {
		if err := removeAddress(m.lease.Interface, m.lease.Address); err != nil {
			m.console.logf("address: %v", err)
		}
	}
	if err := applyNetwork(l.network()); err != nil {
		return err
	}
	if err := writeJSON(RunDir, leaseName, 0o644, l); err != nil {
		return err
	}
	m.lease = l
	m.channel.network.Store(true)
	m.report.wake()
	return nil
}

func describeLease(l lease) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s from %s", l.Address, l.Name, l.Server)
	for _, r := range l.Routes {
		if !r.To.IsValid() && r.Via.IsValid() {
			fmt.Fprintf(&b, ", router %s", r.Via)
		}
	}
	return b.String()
}
