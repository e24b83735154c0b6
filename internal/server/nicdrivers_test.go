package server

import (
	"pando/internal/chunk"
	"pando/internal/image"
)

// storedDrivers returns the drivers of a version: common ones, and those of two NICs.
func storedDrivers(put func(string) chunk.ID) []image.Driver {
	return []image.Driver{
		{Name: "base", Object: put("DRIVERS-OF-BASE!"), Size: 16, For: []string{"virtio_net"}, PCI: "1af4:1000"},
		{Name: "net", Object: put("DRIVERS-OF-EVERY"), Size: 16},
		{
			Name:      "igb",
			Object:    put("DRIVERS-OF-IGB!!"),
			Size:      16,
			InsteadOf: "net",
			For:       []string{"igb"},
			PCI:       "8086:1533",
		},
		{
			Name:      "r8169",
			Object:    put("DRIVERS-OF-R8169"),
			Size:      16,
			InsteadOf: "net",
			For:       []string{"r8169"},
			PCI:       "10ec:8168",
		},
	}
}

const realtekNIC = "pci:v000010ECd00008168sv00001043sd00008554bc02sc00i00"
