package boots

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"pando/internal/bootlog"
	"pando/internal/bootplan"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/netboot"
	"pando/internal/registry"
)

// everyNIC stands for all driver cpios, for a node whose NIC is not known. No cpio has this name.
const everyNIC = "*"

// Bounds of what is remembered of lists that failed.
const (
	maxLists    = 4  // lists of one boot
	driverBoots = 10 // boots that are read
	listTries   = 2  // failures in a row after which a list is not sent again
)

// attempt is one initramfs that a node was sent.
type attempt struct {
	boot    fleet.BootID
	version fleet.Digest
	list    string
	reached bool // the node registered
	modules []string
	missing []string // NICs without a driver
}

// attemptsOf returns what a node was sent in its boots, the newest first. A list whose initramfs was not requested does
// not count. An initramfs that broke off counts as sent: the machine may have started all the same.
func attemptsOf(boots []registry.Boot) []attempt {
	var out []attempt
	for _, b := range boots {
		lists := b.Drivers
		if b.TokenMade.IsZero() && len(lists) > 0 {
			lists = lists[:len(lists)-1]
		}
		for i, list := range slices.Backward(lists) {
			a := attempt{boot: b.ID, version: b.Version, list: list}
			if i == len(b.Drivers)-1 && !b.TokenUsed.IsZero() {
				var h fleet.Hardware
				if json.Unmarshal(b.Hardware, &h) == nil {
					a.modules, a.missing = h.Modules, h.Missing
				}
				a.reached = true
			}
			out = append(out, a)
		}
	}
	return out
}

// lists reports whether the named cpio was among those sent.
func (a attempt) lists(name string) bool {
	return a.list == everyNIC || slices.Contains(strings.Fields(a.list), name)
}

// driverChoice says which driver cpios a boot is sent.
type driverChoice struct {
	list string
	why  string // why the list is everyNIC although the node's NIC is known; "" otherwise
}

// chooseDrivers returns the driver cpios for a boot of a version: those for the known NICs of the node, unless past
// boots speak against them. unattended: a stuck node reboots by itself. Other nodes never get a list that has not
// worked for them before.
func chooseDrivers(
	m image.Manifest,
	version fleet.Digest,
	nic image.NIC,
	past []attempt,
	unattended bool,
) driverChoice {
	registered := slices.IndexFunc(past, func(a attempt) bool { return a.reached })
	if registered >= 0 {
		nic.Modules = past[registered].modules
	}
	drivers, known := m.DriversFor(nic)
	if !known {
		return driverChoice{list: everyNIC}
	}
	list := listOf(drivers)
	if len(past) > 0 && !past[0].reached && past[0].list != everyNIC {
		return driverChoice{
			everyNIC,
			fmt.Sprintf(
				"boot %s was sent those of %s only, and did not get as far as this server",
				past[0].boot,
				past[0].list,
			),
		}
	}
	failed, worked := tries(past, version, list)
	switch {
	case failed >= listTries:
		return driverChoice{
			everyNIC,
			fmt.Sprintf(
				"%d boots in a row that were sent those of %s only did not get as far as this server",
				failed,
				list,
			),
		}
	case !unattended && !worked:
		return driverChoice{everyNIC, "this node never reboots by itself, so it gets all drivers"}
	}
	if registered >= 0 {
		if alias := leftOut(m, past[registered]); alias != "" {
			return driverChoice{
				everyNIC,
				fmt.Sprintf(
					"boot %s was sent those of %s only, and its NIC %s had none",
					past[registered].boot,
					past[registered].list,
					alias,
				),
			}
		}
	}
	return driverChoice{list: list}
}

// tries returns how often a list failed since it worked last, and whether it ever worked.
func tries(past []attempt, version fleet.Digest, list string) (failed int, worked bool) {
	for _, a := range past {
		if a.version != version || a.list != list {
			continue
		}
		if a.reached {
			return failed, true
		}
		failed++
	}
	return failed, false
}

// leftOut returns a NIC that had no driver because the version's cpio for it was not sent, "" if there is none.
func leftOut(m image.Manifest, a attempt) string {
	for _, alias := range a.missing {
		if vendor, device, ok := image.PCIDevice(alias); ok {
			if d, ok := m.DriverOf(vendor, device); ok && !a.lists(d.Name) {
				return alias
			}
		}
	}
	return ""
}

func listOf(drivers []image.Driver) string {
	names := make([]string, len(drivers))
	for i, d := range drivers {
		names[i] = d.Name
	}
	return strings.Join(names, " ")
}

// driversFor chooses the drivers of a boot whose script was requested. The boot's lock is held.
func (s *scripts) driversFor(
	ctx context.Context,
	c *bootlog.Entry,
	p bootplan.Plan,
	q netboot.Query,
) (driverChoice, error) {
	var nic image.NIC
	nic.Vendor, nic.Device, nic.PCI = q.PCI()
	var boots []registry.Boot
	err := s.registry.View(ctx, func(tx *registry.Tx) (err error) {
		boots, err = tx.Boots(registry.BootFilter{MAC: c.MAC, Limit: driverBoots})
		return err
	})
	if err != nil {
		return driverChoice{}, err
	}
	return chooseDrivers(p.Manifest, p.Version, nic, attemptsOf(boots), s.planner.RebootAfter(p.Group) >= 0), nil
}

// addList records the list of a script. It replaces the last list if no initramfs was requested with that.
func addList(b *registry.Boot, list string) {
	lists := slices.Clone(b.Drivers)
	if b.TokenMade.IsZero() && len(lists) > 0 {
		lists = lists[:len(lists)-1]
	}
	lists = append(lists, list)
	b.Drivers = lists[max(0, len(lists)-maxLists):]
}

// driversOf returns the cpios of a boot's list, and whether they are fewer than all. A missing list, or one that does
// not fit the version, counts as everyNIC.
func driversOf(m image.Manifest, b registry.Boot) (drivers []image.Driver, short bool) {
	if len(b.Drivers) == 0 || b.Drivers[len(b.Drivers)-1] == everyNIC {
		return m.AllDrivers(), false
	}
	names := strings.Fields(b.Drivers[len(b.Drivers)-1])
	for _, d := range m.Drivers {
		if slices.Contains(names, d.Name) {
			drivers = append(drivers, d)
		}
	}
	if len(drivers) != len(names) {
		return m.AllDrivers(), false
	}
	return drivers, true
}
