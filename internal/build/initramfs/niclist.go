package initramfs

import (
	"slices"
	"strings"

	"pando/internal/image"
)

// nicLists are the parts for nodes whose NIC is known: each has the driver and all that it wants beyond base, so that
// one goes over the wire and not fifty. All of them are in net as well, which stays one archive: cut into these
// pieces it compresses worse by a twelfth.
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

// companions are what a driver wants that the kernel does not say. None: it is in a part of another name. Xen shows its
// firmware an rtl8139 or e1000 that it takes away from Linux, which is to use xen_netfront.
func companions() map[string]string {
	return map[string]string{
		"mlx4_en": "", "hv_netvsc": "", "pci_hyperv": "", "8139too": "", "8139cp": "",
		"e1000": "xen_netfront",
		"tg3":   "broadcom", // the PHY of some of its chips
	}
}

// beside prepares a packer for a list that comes with base and nothing else: what base has is taken, what the kernel
// does not have as a module is left out.
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

// known are those of some modules that the kernel has, built in or not.
func (p *driverPacker) known(names []string) []string {
	return slices.DeleteFunc(
		slices.Clone(names),
		func(n string) bool { return p.tree.modules[n] == nil && !p.tree.builtin[n] },
	)
}

// pciOf lists the devices of a list's NICs.
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
