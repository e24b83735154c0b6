package registry

import (
	"fmt"
	"net/netip"
	"time"

	"pando/internal/fleet"
)

// known is a condition for the MAC of a known node: one that has registered before, or that was declared before it
// was first seen. A machine that the adoption policy admitted counts only after it has booted, because any machine
// can request a script.
const known = `EXISTS (SELECT 1 FROM macs JOIN nodes ON nodes.name = macs.node WHERE macs.mac = %[1]s AND
	nodes.state = 'adopted' AND (EXISTS (SELECT 1 FROM boots WHERE boots.mac = %[1]s AND boots.token_used > 0) OR
	NOT EXISTS (SELECT 1 FROM boots WHERE boots.mac = %[1]s AND boots.started <= nodes.created)))`

var leaseColumns = `SELECT addr, mac, host, static, expires, bad, ` + fmt.Sprintf(known, "leases.mac") + ` FROM leases`

// KnownMAC reports whether a MAC belongs to a node that has registered before, or that an operator declared.
func (t *Tx) KnownMAC(m fleet.MAC) (is bool, err error) {
	if err := t.row(`SELECT `+fmt.Sprintf(known, "?1"), m.String()).Scan(&is); err != nil {
		return false, fmt.Errorf("look up the node of %s: %w", m, err)
	}
	return is, nil
}

// Leases returns all leases by address. It includes expired ones, because an address is given to the same machine
// again.
func (t *Tx) Leases() ([]fleet.Lease, error) {
	l, err := list(t, scanLease, leaseColumns+` ORDER BY sort`)
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	return t.overLeases(l, func(netip.Addr) bool { return true }), nil
}

// LeasesIn returns the leases of the addresses from first to last, including expired and bad ones.
func (t *Tx) LeasesIn(first, last netip.Addr) ([]fleet.Lease, error) {
	lo, hi := first.As16(), last.As16()
	l, err := list(t, scanLease, leaseColumns+` WHERE sort BETWEEN ? AND ? ORDER BY sort`, lo[:], hi[:])
	if err != nil {
		return nil, fmt.Errorf("list leases of %s-%s: %w", first, last, err)
	}
	return t.overLeases(l, func(a netip.Addr) bool { return !a.Less(first) && !last.Less(a) }), nil
}

// LeaseByMAC returns the usable lease of a MAC that expires last, or ErrNotFound.
func (t *Tx) LeaseByMAC(m fleet.MAC) (fleet.Lease, error) {
	if l, found := t.leaseOver(func(l fleet.Lease) bool { return l.MAC == m && !l.Bad }); found {
		return l, nil
	}
	return one(
		t.row(leaseColumns+` WHERE mac = ? AND NOT bad ORDER BY expires DESC LIMIT 1`, m.String()), scanLease,
		"lease of", m.String(),
	)
}

// LeaseByAddr returns the lease of an address, or ErrNotFound.
func (t *Tx) LeaseByAddr(a netip.Addr) (fleet.Lease, error) {
	if l, found := t.leaseOver(func(l fleet.Lease) bool { return l.Addr == a }); found {
		return l, nil
	}
	return one(t.row(leaseColumns+` WHERE addr = ?`, a.String()), scanLease, "lease of", a.String())
}

// PutLease records a lease and replaces an earlier one of the same address.
func (t *Tx) PutLease(l fleet.Lease) error {
	if t.change != nil {
		return t.putLease(l)
	}
	sort := l.Addr.As16()
	_, err := t.exec(`INSERT INTO leases (addr, sort, mac, host, static, expires, bad) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (addr) DO UPDATE SET mac = excluded.mac, host = excluded.host, static = excluded.static,
		expires = excluded.expires, bad = excluded.bad`,
		l.Addr.String(), sort[:], l.MAC.String(), l.Host, l.Static, stamp(l.Expires), l.Bad)
	if err != nil {
		return fmt.Errorf("record lease %s of %s: %w", l.Addr, l.MAC, err)
	}
	return nil
}

// DeleteLease deletes the lease of an address, or returns ErrNotFound.
func (t *Tx) DeleteLease(a netip.Addr) error {
	n, err := t.exec(`DELETE FROM leases WHERE addr = ?`, a.String())
	if err != nil {
		return fmt.Errorf("delete lease %s: %w", a, err)
	}
	if n == 0 {
		return notFound("lease of", a.String())
	}
	return nil
}

// DeleteLeasesOf deletes a MAC's usable leases other than that of the address except: a machine has one lease.
func (t *Tx) DeleteLeasesOf(m fleet.MAC, except netip.Addr) error {
	if t.change != nil {
		t.change.dropLeases(m, except)
		return nil
	}
	_, err := t.exec(`DELETE FROM leases WHERE mac = ? AND addr != ? AND NOT bad`, m.String(), except.String())
	if err != nil {
		return fmt.Errorf("delete leases of %s: %w", m, err)
	}
	return nil
}

// DeleteExpired deletes the leases that ended before a time and returns their number, so that MACs seen only once do
// not fill the registry.
func (t *Tx) DeleteExpired(before time.Time) (int64, error) {
	n, err := t.exec(`DELETE FROM leases WHERE expires < ? AND NOT static`, stamp(before))
	if err != nil {
		return 0, fmt.Errorf("delete expired leases: %w", err)
	}
	return n, nil
}

func scanLease(s scanner) (fleet.Lease, error) {
	var l fleet.Lease
	var addr, mac string
	var expires int64
	if err := s.Scan(&addr, &mac, &l.Host, &l.Static, &expires, &l.Bad, &l.Known); err != nil {
		return l, err
	}
	l.Expires = unstamp(expires)
	var err error
	if l.Addr, err = parseAddr(addr); err != nil {
		return l, err
	}
	l.MAC, err = fleet.ParseMAC(mac)
	return l, err
}
