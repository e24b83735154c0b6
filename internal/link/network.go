package link

import (
	"net/netip"

	"pando/internal/fleet"
)

// Network is the state of one interface that the daemon puts back whenever something takes it away.
type Network struct {
	Interface int            `json:"interface"` // index; udev may rename the interface, the index stays
	Name      string         `json:"name"`      // as it was called in the initramfs, for messages
	MAC       fleet.MAC      `json:"mac"`       // finds it again when a driver reload changed the index
	MTU       int            `json:"mtu,omitempty"`
	Addresses []netip.Prefix `json:"addresses"` // address with the length of its subnet
	Routes    []Route        `json:"routes"`    // beside those that come with the addresses
}

// Route is one route through the interface.
type Route struct {
	To     netip.Prefix `json:"to,omitzero"`  // zero: the default route of Via's family
	Via    netip.Addr   `json:"via,omitzero"` // zero: on the link
	Metric int          `json:"metric,omitempty"`
}

// PrefixLength is the length of the subnet, 0 when it is not known.
func (n Network) PrefixLength() int {
	if len(n.Addresses) == 0 {
		return 0
	}
	return n.Addresses[0].Bits()
}
