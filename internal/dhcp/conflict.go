package dhcp

import (
	"context"
	"fmt"
	"net/netip"

	"pando/internal/fleet"
)

// prober checks whether a machine other than own uses an address. by is that machine, zero if the answer does not
// identify it. Answers of the client itself do not count: its firmware may still use the address of its last exchange.
type prober interface {
	probe(ctx context.Context, a netip.Addr, own fleet.MAC) (by fleet.MAC, used bool, err error)
}

// clean probes the reserved address. If another machine uses it, the caller records the address as bad for a while, and
// the next address is reserved in its place.
func (w *allocation) clean(ctx context.Context) (bool, error) {
	a, mac := w.addr, w.r.MAC
	had := w.now.Before(w.holder.Expires) && !w.holder.Bad
	switch {
	case w.probed:
		return true, nil
	case w.probe == nil && w.fixed(a) && had && w.holder.MAC != mac:
		return false, w.again(ctx, func(leases Leases) error {
			w.shared(a, w.holder.MAC)
			return w.skip(leases)
		})
	case w.probe == nil:
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
	if by.IsZero() && w.fixed(a) && had && w.holder.MAC != mac {
		by = w.holder.MAC
	}
	own := false
	err = w.again(ctx, func(leases Leases) error {
		sibling, err := w.sibling(leases, by)
		switch {
		case err != nil:
			return err
		case sibling && had && w.holder.MAC == mac:
			// Linux answers for an address on every NIC of its segment, so this is the client itself.
			own = true
			w.offers.clean(mac)
			return nil
		case sibling && w.fixed(a):
			w.shared(a, by)
		default:
			w.unknownMachine(a, by)
		}
		return w.skip(leases)
	})
	return own, err
}

// skip gives the reserved address up and reserves the next one.
func (w *allocation) skip(leases Leases) error {
	w.offers.free(w.r.MAC)
	if w.conflicts++; w.conflicts == maxConflicts {
		return nil
	}
	return w.choose(leases)
}

// sibling reports whether a MAC is another NIC of the client's node.
func (w *allocation) sibling(leases Leases, by fleet.MAC) (bool, error) {
	if by.IsZero() {
		return false, nil
	}
	l, _, err := leases.LeaseByMAC(by)
	if err != nil {
		return false, fmt.Errorf("look up the lease of %s: %w", by, err)
	}
	return l.Host != "" && l.Host == w.mine.Host || l.Static && w.fixed(l.Addr), nil
}

func (w *allocation) shared(a netip.Addr, by fleet.MAC) {
	w.info("another NIC of the node uses its fixed address; this one is offered a dynamic one",
		"mac", w.r.MAC, "node", w.mine.Host, "fixed", a, "used_by", by)
}

// unknownMachine logs that a machine uses an address that it did not get here, and adds the address to w.bad.
func (w *allocation) unknownMachine(a netip.Addr, by fleet.MAC) {
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
		return // not recorded: an operator set this address, and it is used again when the other machine is gone
	}
	bad := fleet.Lease{Addr: a, MAC: by, Bad: true, Expires: w.now.Add(conflictFor)}
	w.bad = append(w.bad, bad)
	w.ranges.learn(bad)
}
