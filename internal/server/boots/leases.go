package boots

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"pando/internal/dhcp"
	"pando/internal/fleet"
	"pando/internal/registry"
)

// leases is the DHCP server's view of one state of the registry. A node's fixed address is a static lease; other leases
// are as recorded.
type leases struct {
	tx   *registry.Tx
	node map[fleet.MAC]fleet.Node // nodes that were read; the zero Node: no node has the MAC
}

func newLeases(tx *registry.Tx) leases { return leases{tx, map[fleet.MAC]fleet.Node{}} }

// nodeOf returns the node that has a MAC, the zero Node if there is none.
func (l leases) nodeOf(mac fleet.MAC) (fleet.Node, error) {
	if n, read := l.node[mac]; read {
		return n, nil
	}
	n, err := l.tx.NodeByMAC(mac)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return fleet.Node{}, err
	}
	if err != nil {
		n = fleet.Node{}
	}
	l.node[mac] = n
	return n, nil
}

// LeaseByMAC implements dhcp.Leases.
func (l leases) LeaseByMAC(mac fleet.MAC) (lease fleet.Lease, found bool, err error) {
	node, err := l.nodeOf(mac)
	if err != nil {
		return lease, false, err
	}
	if node.Address.IsValid() {
		return fleet.Lease{Addr: node.Address, MAC: mac, Host: node.Name, Static: true, Known: true}, true, nil
	}
	lease, err = l.tx.LeaseByMAC(mac)
	if found, err = present(err); err != nil {
		return lease, false, err
	}
	if !found && node.State == fleet.Adopted {
		if lease.Known, err = l.tx.KnownMAC(mac); err != nil {
			return lease, false, err
		}
	}
	lease.Static = false // its node may have had a fixed address before
	lease.Host = ""
	if node.State == fleet.Adopted {
		lease.Host = node.Name
	}
	return lease, found, err
}

// LeaseByAddr implements dhcp.Leases.
func (l leases) LeaseByAddr(addr netip.Addr) (lease fleet.Lease, found bool, err error) {
	lease, err = l.tx.LeaseByAddr(addr)
	if found, err = present(err); err != nil {
		return lease, false, err
	}
	node, err := l.tx.NodeByAddress(addr)
	if errors.Is(err, registry.ErrNotFound) {
		lease.Static = false
		return lease, found, nil
	}
	if err != nil {
		return lease, found, err
	}
	// The fixed address belongs to the NIC of the node that took it last.
	if !found || lease.Bad || !slices.Contains(node.MACs, lease.MAC) {
		lease = fleet.Lease{Addr: addr}
		if len(node.MACs) > 0 {
			lease.MAC = node.MACs[0]
		}
	}
	lease.Host, lease.Static, lease.Bad, lease.Known = node.Name, true, false, true
	return lease, true, nil
}

// LeasesIn implements dhcp.Leases.
func (l leases) LeasesIn(first, last netip.Addr) ([]fleet.Lease, error) {
	out, err := l.tx.LeasesIn(first, last)
	if err != nil {
		return nil, err
	}
	fixed, err := l.tx.FixedAddresses()
	if err != nil {
		return nil, err
	}
	for i, lease := range out {
		out[i].Static = fixed[lease.Addr]
		out[i].Known = lease.Known || out[i].Static
		out[i].Bad = lease.Bad && !out[i].Static
		delete(fixed, lease.Addr)
	}
	for a := range fixed {
		if !a.Less(first) && !last.Less(a) {
			out = append(out, fleet.Lease{Addr: a, Static: true, Known: true})
		}
	}
	return out, nil
}

// AddressUse counts the addresses in the range of a subnet by their holders.
func AddressUse(tx *registry.Tx, s dhcp.Subnet, now time.Time) (dhcp.Use, error) {
	list, err := newLeases(tx).LeasesIn(s.First, s.Last)
	return dhcp.Count(slices.Values(list), s, now), err
}

// putLeases records leases. A MAC has at most one lease that is not bad.
func putLeases(tx *registry.Tx, list []fleet.Lease) error {
	for _, lease := range list {
		if !lease.Bad {
			if err := tx.DeleteLeasesOf(lease.MAC, lease.Addr); err != nil {
				return err
			}
		}
		if err := tx.PutLease(lease); err != nil {
			return err
		}
	}
	return nil
}

func present(err error) (bool, error) {
	if errors.Is(err, registry.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
