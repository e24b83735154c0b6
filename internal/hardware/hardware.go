package hardware

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/fleet"
)

// Read returns the machine's description, except what only its drivers know.
func Read() fleet.Hardware {
	dmi := filepath.Join(Sysfs, "class/dmi/id")
	return fleet.Hardware{
		Vendor:       fleet.FirmwareText(SysValue(dmi, "sys_vendor")),
		Product:      fleet.FirmwareText(SysValue(dmi, "product_name")),
		Serial:       fleet.FirmwareText(SysValue(dmi, "product_serial")),
		UUID:         SysValue(dmi, "product_uuid"),
		Architecture: runtime.GOARCH,
		CPU:          cpuMaker(SysValue("/proc", "cpuinfo")),
		CPUs:         runtime.NumCPU(),
		PCI:          pciDevices(Sysfs),
		Missing:      WithoutDriver(Sysfs),
		Memory:       Memory(),
	}
}

// pciDevices lists the machine's PCI devices as vendor:device:class in hex, sorted and none twice.
func pciDevices(sys string) []string {
	dirs, _ := filepath.Glob(filepath.Join(sys, "bus/pci/devices/*"))
	var out []string
	for _, d := range dirs {
		// The third byte of the class, the programming interface, does not tell what a device is.
		class := SysValue(d, "class")
		id := SysValue(d, "vendor") + ":" + SysValue(d, "device") + ":" + class[:min(len(class), len("0x0200"))]
		out = append(out, strings.ReplaceAll(id, "0x", ""))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// cpuMaker returns the maker of the first CPU, as the name or number that the CPU reports, "" if the kernel does not
// say.
func cpuMaker(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		key, value, _ := strings.Cut(line, ":")
		if key = strings.TrimSpace(key); key == "vendor_id" || key == "CPU implementer" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Memory returns the machine's memory in bytes, 0 if the kernel does not say.
func Memory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
