package dhcp

import (
	"context"
	"fmt"
	"net/netip"

	"pando/internal/fleet"
)

// prober asks a segment whether another machine than own uses an address, and which. by is zero when the answer does
// not tell. A client's own answer counts for nothing: firmware may still answer for the address of its last exchange.
type prober interface {
	probe(ctx context.Context, a netip.Addr, own fleet.MAC) (by fleet.MAC, used bool, err error)
}

// clean probes a reserved address. One that somebody else uses is recorded as bad for a while.
func (w *allocation) clean(ctx context.Context, a netip.Addr, holder fleet.Lease) (bool, error) {
	mac := w.r.MAC
	had := w.now.Before(holder.Expires) && !holder.Bad
	if w.probe == nil {
		if w.fixed(a) && had && holder.MAC != mac {
			w.shared(a, holder.MAC)
			return false, nil
		}
		w.offers.clean(mac)
		return true, nil
	}
	by, used, err := w.probe.probe(ctx, a, mac)
	if err != nil {
		return false, fmt.Errorf("probe %s: %w", a, err)
	}
	if !used {
		w.offers.clean(mac)
		return true, nil
	}
	if by.IsZero() && w.fixed(a) && had && holder.MAC != mac {
		by = holder.MAC
	}
	sibling, err := w.sibling(ctx, by)
	switch {
	case err != nil:
		return false, err
	case sibling && had && holder.MAC == mac:
		// Linux answers for an address on every NIC of its segment, so this is the client itself.
		w.offers.clean(mac)
		return true, nil
	case sibling && w.fixed(a):
		w.shared(a, by)
		return false, nil
	}
	return false, w.stranger(ctx, a, by)
}

// sibling reports whether a MAC is another NIC of the client's node.
func (w *allocation) sibling(ctx context.Context, by fleet.MAC) (bool, error) {
	if by.IsZero() {
		return false, nil
	}
	l, _, err := w.leases.LeaseByMAC(ctx, by)
	if err != nil {
		return false, fmt.Errorf("look up the lease of %s: %w", by, err)
	}
	return l.Host != "" && l.Host == w.mine.Host || l.Static && w.fixed(l.Addr), nil
}

func (w *allocation) shared(a netip.Addr, by fleet.MAC) {
	w.info("another NIC of the node uses its fixed address; this one is offered a dynamic one",
		"mac", w.r.MAC, "node", w.mine.Host, "fixed", a, "used_by", by)
}

// stranger notes that a machine that did not get an address here uses it.
func (w *allocation) stranger(ctx context.Context, a netip.Addr, by fleet.MAC) error {
	w.warn(
		"address is in use by a machine that did not get it here; leaving it alone",
		"addr",
		a,
		"by",
		by,
		"wanted_for",
		w.r.MAC,
		"fixed",
		w.fixed(a),
	)
	if w.fixed(a) {
		return nil // not recorded: the operator's decision stands, and counts again once the other one is gone
	}
	bad := fleet.Lease{Addr: a, MAC: by, Bad: true, Expires: w.now.Add(conflictFor)}
	if err := w.leases.SaveLease(ctx, bad); err != nil {
		return fmt.Errorf("record that %s is in use: %w", a, err)
	}
	w.ranges.learn(bad)
	return nil
}
