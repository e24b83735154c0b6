package dhcp

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"time"

	"pando/internal/fleet"
)

// maxConflicts bounds the probes for one packet: more would take longer than a client waits.
const maxConflicts = 8

// maxLookUps is how many addresses of a range are looked up one by one for a packet. After that the range is read as a
// whole.
const maxLookUps = 4

// allocator finds an address for a DISCOVER.
type allocator struct {
	again  func(ctx context.Context, read func(Leases) error) error // reads the records once more, after a conflict
	ranges *ranges
	offers *offers
	probe  prober // nil: addresses are not probed
	avoid  func(netip.Addr) bool
	warn   func(msg string, args ...any) // logs what an operator has to fix
	info   func(msg string, args ...any) // logs what needs no action
}

// allocation is the work for one DISCOVER.
type allocation struct {
	*allocator
	r         Request
	subnet    Subnet
	mine      fleet.Lease // the lease recorded for the MAC
	known     bool        // the MAC is a node's
	now       time.Time
	lookUps   int
	conflicts int

	tried  int           // how many of the preferred addresses were tried
	addr   netip.Addr    // reserved; zero: none is left
	probed bool          // addr needs no probe
	holder fleet.Lease   // recorded for addr
	bad    []fleet.Lease // addresses that unknown machines use, to be recorded
}

// begin reserves an address for a client, without a probe. It tries in this order (RFC 2131 section 4.3.1): the address
// reserved for or recorded for the client, the one that it requests, the one derived from its MAC and those after that,
// and at last addresses whose lease has run out.
func (p *allocator) begin(leases Leases, r Request, s Subnet, mine fleet.Lease, now time.Time) (*allocation, error) {
	w := &allocation{allocator: p, r: r, subnet: s, mine: mine, known: mine.Known || mine.Static, now: now}
	if a, probed := p.offers.get(r.MAC, now); probed && s.Usable(a) && (!mine.Static || w.fixed(a)) {
		p.offers.reserve(r.MAC, a, now, offerFor, !w.known)
		p.offers.clean(r.MAC)
		w.addr, w.probed = a, true
		return w, nil
	}
	return w, w.choose(leases)
}

// choose reserves the next address that the records allow.
func (w *allocation) choose(leases Leases) error {
	w.addr = netip.Addr{}
	n := 0
	for _, second := range []bool{false, true} {
		for a := range w.preferred() {
			if n++; n <= w.tried || w.isBad(a) {
				continue
			}
			w.tried = n
			ok, err := w.try(leases, a, second)
			if err != nil {
				return err
			}
			if ok {
				w.addr = a
				return nil
			}
		}
	}
	return nil
}

// isBad reports whether a probe found that another machine uses an address.
func (w *allocation) isBad(a netip.Addr) bool {
	return slices.ContainsFunc(w.bad, func(l fleet.Lease) bool { return l.Addr == a })
}

// finish probes the reserved address and, while a machine answers, the next one. It returns the address, or why there
// is none. It runs outside of the read of the records, because a probe takes time.
func (w *allocation) finish(ctx context.Context) (netip.Addr, string, error) {
	for w.addr.IsValid() {
		ok, err := w.clean(ctx)
		switch {
		case err != nil:
			return netip.Addr{}, "", err
		case ok:
			return w.addr, "", nil
		case w.conflicts == maxConflicts:
			why := "%d addresses in a row are used by machines that have no lease"
			return netip.Addr{}, fmt.Sprintf(why, w.conflicts), nil
		}
	}
	return netip.Addr{}, fmt.Sprintf("no free address in %s", w.subnet.Prefix), nil
}

// preferred returns the addresses to try first, in order. Some may come twice, which costs one more look-up.
func (w *allocation) preferred() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		own := w.subnet.Usable(w.mine.Addr) && (w.mine.Static || w.subnet.inRange(w.mine.Addr))
		if own && !yield(w.mine.Addr) {
			return
		}
		if w.subnet.inRange(w.r.Requested) && !yield(w.r.Requested) {
			return
		}
		w.subnet.candidates(w.r.MAC)(yield)
	}
}

// fixed reports whether a is the fixed address of the client's node. Each NIC of the node may use it, one at a time.
func (w *allocation) fixed(a netip.Addr) bool { return w.mine.Static && w.mine.Addr == a }

// try reserves one address. It checks what is in memory before it looks anything up.
func (w *allocation) try(leases Leases, a netip.Addr, second bool) (bool, error) {
	keep := offerFor
	if w.fixed(a) {
		keep = exchangeFor
	}
	if w.avoid(a) || !w.fixed(a) && w.offers.refused(w.r.MAC, a, w.now) {
		return false, nil
	}
	if by, kept := w.offers.kept(w.r.MAC, a, w.now, keep); kept {
		if w.fixed(a) && !second {
			w.shared(a, by)
		}
		return false, nil
	}
	holder, ok, err := w.lookUpHolder(leases, a, second)
	if err != nil || !ok || !w.offers.reserve(w.r.MAC, a, w.now, keep, !w.known) {
		return false, err
	}
	w.holder = holder
	return true, nil
}

// lookUpHolder returns whether an address can be offered, and its last holder, from the records. After a few look-ups
// it reads the whole range at once: a full range then costs one query and not one for each address.
func (w *allocation) lookUpHolder(leases Leases, a netip.Addr, second bool) (fleet.Lease, bool, error) {
	if w.lookUps >= maxLookUps && w.subnet.inRange(a) {
		holder, found, err := w.ranges.holder(leases, w.subnet, a, w.now)
		if err != nil || !w.available(holder, found, second) {
			return holder, false, err
		}
	}
	w.lookUps++
	holder, found, err := leases.LeaseByAddr(a)
	if err != nil {
		return holder, false, fmt.Errorf("look up who has %s: %w", a, err)
	}
	if found {
		w.ranges.learn(holder)
	}
	return holder, w.fixed(a) && !second || w.available(holder, found, second), nil
}

// available reports from its record whether an address can be offered. second allows addresses whose lease ran out. A
// node's address never goes to an unknown machine, because the node will request it again. The probe finds out whether
// another NIC of the client's node uses the node's fixed address.
func (w *allocation) available(holder fleet.Lease, found, second bool) bool {
	switch {
	case !found:
		return true
	case holder.Bad:
		return !w.now.Before(holder.Expires)
	case holder.MAC == w.r.MAC:
		return true
	}
	return second && !holder.Static && !w.now.Before(holder.Expires) && (w.known || !holder.Known)
}
