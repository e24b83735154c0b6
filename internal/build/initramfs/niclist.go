package initramfs

import (
	"slices"
	"strings"

	"pando/internal/image"
)

// nicLists returns a part for each NIC driver: the driver and its dependencies beyond the base part, so that a node
// with a known NIC loads one driver and not fifty. The net part has all of them too; it stays one archive because
// that compresses better.
func nicLists() []DriverList {
	var out []DriverList
	for _, name := range strings.Fields(wiredAdapters) {
		if with, ok := companions()[name]; !ok || with != "" {
			out = append(
				out,
				DriverList{
					Name:      name,
					insteadOf: "net",
					nics:      []string{name},
					Devices:   append(strings.Fields(with), name),
				},
			)
		}
	}
	usb := strings.Fields(usbAdapters)
	return append(
		out,
		DriverList{
			Name:      "mlx4",
			insteadOf: "net",
			nics:      []string{"mlx4_core", "mlx4_en"},
			Devices:   []string{"mlx4_core", "mlx4_en"},
		},
		DriverList{
			Name:      "hyperv",
			insteadOf: "net",
			nics:      []string{"hv_netvsc"},
			Devices:   []string{"hv_netvsc", "pci_hyperv"},
		},
		DriverList{
			Name:      "rtl8139",
			insteadOf: "net",
			nics:      []string{"8139too", "8139cp"},
			Devices:   []string{"8139too", "8139cp", "xen_netfront"},
		},
		DriverList{
			Name:      "usb",
			insteadOf: "net",
			nics:      usb,
			Devices:   append(strings.Fields(usbHosts+" "+transceivers), usb...),
		},
	)
}

// companions lists what a driver needs although the kernel does not say so. "": the driver is in a
// part with another name.
// Xen shows firmware an emulated rtl8139 or e1000 but removes it when Linux starts, which uses xen_netfront.
func companions() map[string]string {
	return map[string]string{
		"mlx4_en": "", "hv_netvsc": "", "pci_hyperv": "", "8139too": "", "8139cp": "",
		"e1000": "xen_netfront",
		"tg3":   "broadcom", // PHY of some of its chips
	}
}

// beside prepares the packer for a list that a node gets together with only the base part: it marks the modules of
// base as packed, and removes modules that the kernel does not have or has built in.
func (p *driverPacker) beside(base DriverCPIO, list DriverList) DriverList {
	p.taken = map[string]bool{}
	for _, n := range base.Modules {
		p.taken[n] = true
	}
	absent := func(n string) bool { return p.tree.modules[n] == nil || p.tree.builtin[n] || p.taken[n] }
	list.nics = slices.DeleteFunc(slices.Clone(list.nics), absent)
	list.Devices = slices.DeleteFunc(slices.Clone(list.Devices), absent)
	return list
}

// known returns those of the named modules that the kernel has, built in or not.
func (p *driverPacker) known(names []string) []string {
	return slices.DeleteFunc(
		slices.Clone(names),
		func(n string) bool { return p.tree.modules[n] == nil && !p.tree.builtin[n] },
	)
}

// pciOf returns the PCI IDs of a list's NICs.
func (p *driverPacker) pciOf(list DriverList) image.PCIList {
	names := p.known(list.nics)
	if list.pci != "" && len(names) > 0 {
		return list.pci
	}
	var aliases []string
	for _, n := range names {
		if m := p.tree.modules[n]; m != nil {
			aliases = append(aliases, m.aliases...)
		}
	}
	return image.PCIOf(aliases)
}
