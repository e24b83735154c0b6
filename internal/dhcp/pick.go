package dhcp

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"pando/internal/fleet"
)

// prober asks a segment whether an address is in use, and by whom. The MAC is zero when the answer does not tell.
type prober interface {
	probe(ctx context.Context, a netip.Addr) (by fleet.MAC, used bool, err error)
}

// maxConflicts bounds the probes for one packet: a client does not wait for longer.
const maxConflicts = 8

// picker finds an address for a DISCOVER.
type picker struct {
	leases Leases
	offers *offers
	probe  prober // nil: addresses are not probed
	avoid  func(netip.Addr) bool
	loud   func(msg string, args ...any)
}

// pick reserves and probes an address for a client, or says why there is none. In this order (RFC 2131
// section 4.3.1): what is reserved for it or recorded as its own, what it asks for, what is derived from its MAC
// or comes after that, and at last an address whose lease has run out.
func (p *picker) pick(ctx context.Context, r Request, s Subnet, mine fleet.Lease, now time.Time) (netip.Addr, string, error) {
	if a, probed := p.offers.get(r.MAC, now); probed && s.usable(a) && (!mine.Static || mine.Addr == a) {
		p.offers.reserve(r.MAC, a, now)
		p.offers.clean(r.MAC)
		return a, "", nil
	}
	conflicts := 0
	for _, second := range []bool{false, true} {
		for a := range p.wishes(r, s, mine) {
			holder, found, err := p.leases.LeaseByAddr(ctx, a)
			if err != nil {
				return netip.Addr{}, "", fmt.Errorf("look up who has %s: %w", a, err)
			}
			if p.avoid(a) || !available(holder, found, r.MAC, second, now) || !p.offers.reserve(r.MAC, a, now) {
				continue
			}
			if clean, err := p.clean(ctx, r.MAC, a, mine, now); err != nil || clean {
				return a, "", err
			}
			p.offers.free(r.MAC)
			if conflicts++; conflicts == maxConflicts {
				return netip.Addr{}, fmt.Sprintf("%d addresses in a row are used by machines that have no lease", conflicts), nil
			}
		}
	}
	return netip.Addr{}, fmt.Sprintf("no free address in %s", s.Prefix), nil
}

// wishes are the addresses worth trying, in order. Some come twice, which costs a look-up.
func (p *picker) wishes(r Request, s Subnet, mine fleet.Lease) func(func(netip.Addr) bool) {
	return func(yield func(netip.Addr) bool) {
		own := s.usable(mine.Addr) && (mine.Static || s.inRange(mine.Addr))
		if own && !yield(mine.Addr) {
			return
		}
		if s.inRange(r.Requested) && !yield(r.Requested) {
			return
		}
		s.candidates(r.MAC)(yield)
	}
}

// available tells from the records whether an address can be offered. second allows those whose lease ran out.
func available(holder fleet.Lease, found bool, mac fleet.MAC, second bool, now time.Time) bool {
	switch {
	case !found:
		return true
	case holder.Bad:
		return !now.Before(holder.Expires)
	case holder.MAC == mac:
		return true
	}
	return second && !holder.Static && !now.Before(holder.Expires)
}

// clean probes a reserved address. One that somebody else uses is recorded as bad for a while.
func (p *picker) clean(ctx context.Context, mac fleet.MAC, a netip.Addr, mine fleet.Lease, now time.Time) (bool, error) {
	if p.probe == nil {
		p.offers.clean(mac)
		return true, nil
	}
	by, used, err := p.probe.probe(ctx, a)
	if err != nil {
		return false, fmt.Errorf("probe %s: %w", a, err)
	}
	if !used || by == mac { // a firmware may still answer for the address of its own last exchange
		p.offers.clean(mac)
		return true, nil
	}
	p.loud("address is in use by a machine that did not get it here; leaving it alone", "addr", a, "by", by, "wanted_for", mac,
		"fixed", mine.Static && mine.Addr == a)
	if mine.Static && mine.Addr == a {
		return false, nil // not recorded: the operator's decision stands, and counts again once the other one is gone
	}
	bad := fleet.Lease{Addr: a, MAC: by, Bad: true, Expires: now.Add(conflictFor)}
	if err := p.leases.SaveLease(ctx, bad); err != nil {
		return false, fmt.Errorf("record that %s is in use: %w", a, err)
	}
	return false, nil
}
