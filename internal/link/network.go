package link

import (
	"net/netip"

	"pando/internal/fleet"
)

// Network is the state of one interface that the block daemon restores whenever something removes it.
type Network struct {
	Interface int            `json:"interface"` // index; udev may rename the interface, the index stays
	Name      string         `json:"name"`      // its name in the initramfs, for messages
	MAC       fleet.MAC      `json:"mac"`       // identifies the interface when a driver reload changed the index
	MTU       int            `json:"mtu,omitempty"`
	Addresses []netip.Prefix `json:"addresses"` // address with the length of its subnet
	Routes    []Route        `json:"routes"`    // routes besides those that come with the addresses
}

// Route is one route through the interface.
type Route struct {
	To     netip.Prefix `json:"to,omitzero"`  // zero: the default route of Via's family
	Via    netip.Addr   `json:"via,omitzero"` // zero: on the link
	Metric int          `json:"metric,omitempty"`
}

// PrefixLength returns the length of the subnet, 0 if it is unknown.
func (n Network) PrefixLength() int {
	if len(n.Addresses) == 0 {
		return 0
	}
	return n.Addresses[0].Bits()
}
