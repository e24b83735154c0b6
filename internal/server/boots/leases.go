package boots

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"pando/internal/fleet"
	"pando/internal/registry"
)

// Leases is the DHCP part's view of the registry: a node's fixed address is a static lease, everything else is as
// it was recorded.
type Leases struct{ registry *registry.Registry }

// NewLeases returns the leases and fixed addresses of a registry.
func NewLeases(reg *registry.Registry) Leases { return Leases{registry: reg} }

// LeaseByMAC implements dhcp.Leases.
func (l Leases) LeaseByMAC(ctx context.Context, mac fleet.MAC) (lease fleet.Lease, found bool, err error) {
	err = l.registry.View(ctx, func(tx *registry.Tx) error {
		node, err := tx.NodeByMAC(mac)
		if err != nil && !errors.Is(err, registry.ErrNotFound) {
			return err
		}
		if err == nil && node.Address.IsValid() {
			lease, found = fleet.Lease{Addr: node.Address, MAC: mac, Host: node.Name, Static: true}, true
			return nil
		}
		lease, err = tx.LeaseByMAC(mac)
		found, err = present(err)
		lease.Static = false // its node may have had a fixed address once
		lease.Host = ""
		if node.State == fleet.Adopted {
			lease.Host = node.Name
		}
		return err
	})
	return lease, found, err
}

// LeaseByAddr implements dhcp.Leases.
func (l Leases) LeaseByAddr(ctx context.Context, addr netip.Addr) (lease fleet.Lease, found bool, err error) {
	err = l.registry.View(ctx, func(tx *registry.Tx) error {
		lease, err = tx.LeaseByAddr(addr)
		if found, err = present(err); err != nil {
			return err
		}
		node, err := tx.NodeByAddress(addr)
		if errors.Is(err, registry.ErrNotFound) {
			lease.Static = false
			return nil
		}
		if err != nil {
			return err
		}
		// Of a node's several NICs the one that took the address last has it.
		if !found || lease.Bad || !slices.Contains(node.MACs, lease.MAC) {
			lease = fleet.Lease{Addr: addr}
			if len(node.MACs) > 0 {
				lease.MAC = node.MACs[0]
			}
		}
		lease.Host, lease.Static, lease.Bad, found = node.Name, true, false, true
		return nil
	})
	return lease, found, err
}

// LeasesIn implements dhcp.Leases.
func (l Leases) LeasesIn(ctx context.Context, first, last netip.Addr) (out []fleet.Lease, err error) {
	err = l.registry.View(ctx, func(tx *registry.Tx) error {
		if out, err = tx.LeasesIn(first, last); err != nil {
			return err
		}
		fixed, err := tx.FixedAddresses()
		if err != nil {
			return err
		}
		for i, lease := range out {
			out[i].Static = fixed[lease.Addr]
			out[i].Bad = lease.Bad && !out[i].Static
			delete(fixed, lease.Addr)
		}
		for a := range fixed {
			if !a.Less(first) && !last.Less(a) {
				out = append(out, fleet.Lease{Addr: a, Static: true})
			}
		}
		return nil
	})
	return out, err
}

// SaveLease implements dhcp.Leases.
func (l Leases) SaveLease(ctx context.Context, lease fleet.Lease) error {
	return l.registry.Update(ctx, func(tx *registry.Tx) error {
		if !lease.Bad {
			if err := tx.DeleteLeasesOf(lease.MAC, lease.Addr); err != nil {
				return err
			}
		}
		return tx.PutLease(lease)
	})
}

func present(err error) (bool, error) {
	if errors.Is(err, registry.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
