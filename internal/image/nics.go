package image

import (
	"fmt"
	"slices"

	"pando/internal/fleet"
)

// NIC is what is known about a node's network adapters.
type NIC struct {
	PCI            bool // the boot adapter is the PCI device below
	Vendor, Device uint16
	Modules        []string // modules that an earlier boot of the node loaded
}

// AllDrivers lists the cpios for a node whose adapters are not known: those for every node, without those for one
// adapter.
func (m Manifest) AllDrivers() []Driver {
	return slices.DeleteFunc(slices.Clone(m.Drivers), func(d Driver) bool { return d.InsteadOf != "" })
}

// DriversFor lists the cpios for a node whose adapters are known, in the order in which they are sent. It matches the
// boot adapter by its PCI ID or, if it has none, by the modules that drove it before. It returns false if no cpio is
// for that adapter; the node then needs AllDrivers.
func (m Manifest) DriversFor(nic NIC) ([]Driver, bool) {
	known := false
	chosen := map[string]bool{}   // cpios for the known adapters
	replaced := map[string]bool{} // cpios that a chosen one replaces
	for _, d := range m.Drivers {
		pci := nic.PCI && d.PCI.Has(nic.Vendor, nic.Device)
		used := slices.ContainsFunc(d.For, func(name string) bool { return slices.Contains(nic.Modules, name) })
		known = known || pci || used && !nic.PCI
		chosen[d.Name] = pci || used
	}
	for _, d := range m.Drivers {
		replaced[d.InsteadOf] = true
	}
	if !known {
		return nil, false
	}
	return slices.DeleteFunc(slices.Clone(m.Drivers), func(d Driver) bool {
		return replaced[d.Name] || d.InsteadOf != "" && !chosen[d.Name]
	}), true
}

// DriverOf returns the cpio for a PCI device, if the version has one.
func (m Manifest) DriverOf(vendor, device uint16) (Driver, bool) {
	for _, d := range m.Drivers {
		if d.PCI.Has(vendor, device) {
			return d, true
		}
	}
	return Driver{}, false
}

// DriversSize returns the sum of the sizes of cpios, in bytes.
func DriversSize(drivers []Driver) (n int64) {
	for _, d := range drivers {
		n += d.Size
	}
	return n
}

// maxFor bounds the number of modules in Driver.For.
const maxFor = 64

// IsModule reports whether a name is a valid name of a kernel module.
func IsModule(name string) bool { return moduleName.Allows(name) }

var moduleName = fleet.Spelling{Capitals: true, Inner: "_", End: true, Max: 64}

// checkUse checks the fields that say which nodes get a cpio. before are the cpios listed before it.
func (d Driver) checkUse(before []Driver) error {
	if d.InsteadOf != "" {
		i := slices.IndexFunc(before, func(b Driver) bool { return b.Name == d.InsteadOf })
		if i < 0 || before[i].InsteadOf != "" {
			return fmt.Errorf(
				"instead_of: %q is not listed before it, or has instead_of itself",
				d.InsteadOf,
			)
		}
		if len(d.For) == 0 {
			return fmt.Errorf("for: empty, so that no node would get it")
		}
	}
	if err := d.PCI.check(); err != nil {
		return fmt.Errorf("pci: %w", err)
	}
	if len(d.For) > maxFor {
		return fmt.Errorf("for: %d modules, more than %d", len(d.For), maxFor)
	}
	for i, n := range d.For {
		if !moduleName.Allows(n) || slices.Contains(d.For[:i], n) {
			return fmt.Errorf("for[%d]: %.80q is no module's name, or is listed twice", i, n)
		}
	}
	return nil
}
